package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// DefaultListen is the address of the server where none is given: loopback only.
const DefaultListen = "127.0.0.1:8470"

// DefaultReadyWithin is the age of the last commit up to which a job is ready, where none is given.
const DefaultReadyWithin = 30 * time.Second

// Bounds of the server. A status of a thousand partitions is well under a megabyte, so the time to write is generous.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	shutdownTimeout   = 3 * time.Second
	maxHeaderBytes    = 16 << 10
)

// Options are what a server is made from.
type Options struct {
	// Listen is host:port; port 0 takes a free one. Empty means DefaultListen.
	Listen string
	Job    Job
	// Metrics are those that the job's parts report to.
	Metrics *Metrics
	// ReadyWithin is the age of the last commit from which on the job is not ready. 0 means DefaultReadyWithin.
	ReadyWithin time.Duration
	// Logger may be nil.
	Logger *slog.Logger
}

// Server answers /healthz, /readyz, /metrics and /api/v1/job.
type Server struct {
	opts     Options
	listener net.Listener
	http     *http.Server
}

// Listen binds the address, so that one that is taken is found at start. Run must follow.
func Listen(ctx context.Context, o Options) (*Server, error) {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if o.ReadyWithin == 0 {
		o.ReadyWithin = DefaultReadyWithin
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("http.listen: cannot listen on %s: %w; choose another address, or port 0 for a free one", o.Listen, err)
	}
	s := &Server{opts: o, listener: l}
	s.http = &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Addr returns the address that the server listens on, as host:port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends; requests on their way are answered first, within a few seconds. It is called once.
func (s *Server) Run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- s.http.Serve(s.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("http server on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := s.http.Shutdown(timeout)
	if err != nil {
		err = errors.Join(fmt.Errorf("http server on %s: requests were cut off at the end: %w", s.Addr(), err), s.http.Close())
	}
	if serveErr := <-ended; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.verdict((*Status).alive))
	mux.HandleFunc("GET /readyz", s.verdict(func(st *Status) error { return st.ready(s.opts.ReadyWithin) }))
	mux.HandleFunc("GET /api/v1/job", s.job)
	mux.Handle("GET /metrics", s.opts.Metrics.handler(s.opts.Job))
	return mux
}

// verdict answers 200, or 503 with the reason.
func (s *Server) verdict(of func(*Status) error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		st := picture(s.opts.Job)
		if err := of(&st); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		s.write(w, "text/plain; charset=utf-8", []byte("ok\n"))
	}
}

func (s *Server) job(w http.ResponseWriter, _ *http.Request) {
	text, err := json.MarshalIndent(picture(s.opts.Job), "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.write(w, "application/json", append(text, '\n'))
}

func (s *Server) write(w http.ResponseWriter, kind string, text []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	if _, err := w.Write(text); err != nil {
		s.opts.Logger.Debug("an answer was not read to its end", "error", err)
	}
}
