#!/usr/bin/env bash
# Runs Apache Kafka (KRaft, combined broker and controller) on this machine for tests.
#
#   kafka.sh fetch         put the broker's jars into the cache (Maven)
#   kafka.sh format        new empty cluster; ports are chosen here and kept
#   kafka.sh start [node]  start all nodes or one (formats first if need be), wait until ready
#   kafka.sh stop [node]   ask all nodes or one to end, and wait
#   kafka.sh kill [node]   SIGKILL
#   kafka.sh pause node    SIGSTOP; resume node: SIGCONT
#   kafka.sh wait [node]   wait until ready
#   kafka.sh status        one line per node: state, pid, address, log
#   kafka.sh brokers       bootstrap addresses, separated by commas
#   kafka.sh ports         one line per listener: node, name, port
#   kafka.sh wipe          kill all nodes and remove the data
#   kafka.sh guard         wipe when standard input ends: brokers must not outlive a test that crashed
#   kafka.sh tool CLASS …  run one of Kafka's own tools, e.g. org.apache.kafka.tools.consumer.ConsoleConsumer
#
# Environment:
#   WEIR_CACHE             downloads (default: .cache in the project)
#   WEIR_BROKER_DIR        this cluster: data, logs, ports, pids (default: $WEIR_CACHE/broker)
#   WEIR_BROKER_NODES      1 or 3, read by format (default 1)
#   WEIR_BROKER_HEAP       per node (default 512m, with three nodes 384m)
#   WEIR_BROKER_JIT        1 starts fast, 4 runs fast: for benchmarks (default 1)
#   WEIR_BROKER_SESSION    milliseconds until a dead broker is fenced (default 3000)
#   WEIR_BROKER_LISTENERS  more listeners as NAME:PROTOCOL, read by format, e.g. "TLS:SSL LOGIN:SASL_PLAINTEXT";
#                          NAME:PROTOCOL:ELSEWHERE advertises another port, ELSEWHERE in the list of ports, for a proxy
#   WEIR_BROKER_PROPERTIES more broker properties, one per line, read by start
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's/.*<kafka.version>\(.*\)<.*/\1/p' "$here/pom.xml")
cache=${WEIR_CACHE:-$here/../../.cache}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
jars=$(cksum <"$here/pom.xml" | cut -d' ' -f1) # another list of jars is another folder: brokers may be running from this one
lib=$cache/kafka-$version/lib-$jars
archive=$cache/kafka-$version/classes-$jars-$(readlink -f "$(command -v java || echo none)" | cksum | cut -d' ' -f1).jsa
dir=${WEIR_BROKER_DIR:-$cache/broker}
ready_seconds=60

fail() {
	echo "kafka.sh: $*" >&2
	exit 1
}

# --- the broker's jars -------------------------------------------------------------------------------------------

need() { # command, package
	command -v "$1" >/dev/null && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "kafka.sh: installing $2" >&2
		{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$2"; } >&2 ||
			fail "apt-get could not install $2"
	else
		fail "$1 is missing: install Java 17 or newer and Maven (Debian, Ubuntu: apt-get install default-jre-headless maven)"
	fi
}

fetch() {
	need java default-jre-headless
	[ -d "$lib" ] && [ -f "$archive" ] && return
	[ -z "${WEIR_BROKER_ARCHIVING:-}" ] || return 0
	(
		flock 9
		[ -d "$lib" ] || fetch_jars
		[ -f "$archive" ] || make_archive
	) 9>"$cache/fetch.lock"
}

fetch_jars() {
	need mvn maven
	echo "kafka.sh: fetching Apache Kafka $version into $lib" >&2
	rm -rf "$lib.part"
	mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$lib.part" >&2 ||
		fail "Maven could not fetch Kafka $version"
	mv "$lib.part" "$lib"
}

# make_archive keeps the classes of a broker that has started, parsed and verified: with them a start costs 2 s of CPU and
# not 6 s. The archive fits one JVM; another one ignores it.
make_archive() {
	echo "kafka.sh: preparing for quick starts" >&2
	local run=$cache/kafka-$version/archiving
	rm -f "$archive.part"
	WEIR_BROKER_DIR=$run WEIR_BROKER_NODES=1 WEIR_BROKER_LISTENERS='' WEIR_BROKER_ARCHIVING=$archive.part "$0" start >/dev/null
	WEIR_BROKER_DIR=$run WEIR_BROKER_ARCHIVING=$archive.part "$0" stop
	[ -s "$archive.part" ] || fail "the JVM wrote no class archive, see $run/1/log"
	mv "$archive.part" "$archive"
	rm -rf "$run"
}

run_java() {
	local java
	java_command
	"${java[@]}" "$@"
}

# java_command sets java to the command line of a JVM that has Kafka on its class path.
java_command() {
	local share="-XX:SharedArchiveFile=$archive"
	[ -z "${WEIR_BROKER_ARCHIVING:-}" ] || share="-XX:ArchiveClassesAtExit=$WEIR_BROKER_ARCHIVING"
	java=(java -XX:+UseSerialGC -XX:TieredStopAtLevel="${WEIR_BROKER_JIT:-1}" -Xshare:auto "$share" -Xlog:cds=off -Xlog:cds+dynamic=off
		-cp "$(printf '%s:' "$lib"/*.jar)" "-Dlog4j2.configurationFile=$here/log4j2.properties")
}

# --- layout and properties ---------------------------------------------------------------------------------------

nodes() { cut -d' ' -f1 "$dir/ports" | sort -un; }

port() { # node, listener
	awk -v n="$1" -v l="$2" '$1 == n && $2 == l { print $3 }' "$dir/ports"
}

free_port() { # below the ephemeral range, so that no outgoing connection takes it between two starts of a node
	local p
	while :; do
		p=$((15000 + (RANDOM * 32768 + RANDOM) % 17000))
		grep -q " $p\$" "$dir/ports" && continue
		(exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || break
	done
	echo "$p"
}

choose_ports() { # number of nodes
	: >"$dir/ports"
	: >"$dir/listeners"
	local n l
	for l in CONTROLLER:PLAINTEXT PLAINTEXT:PLAINTEXT ${WEIR_BROKER_LISTENERS:-}; do
		echo "${l//:/ }" >>"$dir/listeners"
		for n in $(seq "$1"); do
			echo "$n ${l%%:*} $(free_port)" >>"$dir/ports"
			case $l in *:*:*) echo "$n ${l##*:} $(free_port)" >>"$dir/ports" ;; esac
		done
	done
}

# Retention is off: a test's records have timestamps of any age, and half a minute after the start of a broker those of 1970
# would be deleted under the readers.
properties() { # node
	local count replicas isr n name protocol elsewhere voters='' listeners='' advertised='' map=''
	count=$(nodes | wc -l)
	replicas=$count isr=$((count / 2 + 1))
	for n in $(nodes); do voters+=",$n@127.0.0.1:$(port "$n" CONTROLLER)"; done
	while read -r name protocol elsewhere; do
		listeners+=",$name://127.0.0.1:$(port "$1" "$name")"
		[ "$name" = CONTROLLER ] || advertised+=",$name://127.0.0.1:$(port "$1" "${elsewhere:-$name}")"
		map+=",$name:$protocol"
	done <"$dir/listeners"
	cat <<-P
		process.roles=broker,controller
		node.id=$1
		controller.quorum.voters=${voters#,}
		controller.listener.names=CONTROLLER
		inter.broker.listener.name=PLAINTEXT
		listeners=${listeners#,}
		advertised.listeners=${advertised#,}
		listener.security.protocol.map=${map#,}
		log.dirs=$dir/$1/data
		log.retention.ms=-1
		auto.create.topics.enable=false
		num.partitions=4
		default.replication.factor=$replicas
		min.insync.replicas=$isr
		offsets.topic.num.partitions=4
		offsets.topic.replication.factor=$replicas
		transaction.state.log.num.partitions=4
		transaction.state.log.replication.factor=$replicas
		transaction.state.log.min.isr=$isr
		share.coordinator.state.topic.replication.factor=$replicas
		share.coordinator.state.topic.min.isr=$isr
		group.initial.rebalance.delay.ms=0
		transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
		broker.session.timeout.ms=${WEIR_BROKER_SESSION:-3000}
		broker.heartbeat.interval.ms=500
		num.network.threads=2
		num.io.threads=4
		background.threads=2
		num.recovery.threads.per.data.dir=2
		log.cleaner.dedupe.buffer.size=20000000
		file.delete.delay.ms=1000
		${WEIR_BROKER_PROPERTIES:-}
	P
}

format() {
	local count=${WEIR_BROKER_NODES:-1} n
	[ "$count" = 1 ] || [ "$count" = 3 ] || fail "WEIR_BROKER_NODES is $count: 1 and 3 work"
	fetch
	wipe
	mkdir -p "$dir"
	choose_ports "$count"
	for n in $(nodes); do
		mkdir -p "$dir/$n"
		properties "$n" >"$dir/$n/server.properties"
	done
	# The first format of a size is kept: another one needs no JVM, as what it writes names no port and no path.
	local kept=$cache/kafka-$version/formatted-$count
	if [ ! -d "$kept" ]; then
		for n in $(nodes); do
			WEIR_BROKER_ARCHIVING='' run_java kafka.tools.StorageTool format -t weir-test-cluster-AAAA -c "$dir/$n/server.properties" \
				>"$dir/$n/log" 2>&1 || fail "formatting node $n: $(tail -3 "$dir/$n/log")"
		done
		mkdir "$kept.$$"
		for n in $(nodes); do cp -r "$dir/$n/data" "$kept.$$/$n"; done
		mv -T "$kept.$$" "$kept" 2>/dev/null || rm -rf "$kept.$$"
		return
	fi
	for n in $(nodes); do cp -r "$kept/$n" "$dir/$n/data"; done
}

# --- processes ---------------------------------------------------------------------------------------------------

running() { # node; the pid may have gone to another process since
	[ -f "$dir/$1/pid" ] && grep -qsF "$dir/$1/server.properties" "/proc/$(cat "$dir/$1/pid")/cmdline"
}

state() { # node
	running "$1" || { echo down && return; }
	case $(awk '{ print $3 }' "/proc/$(cat "$dir/$1/pid")/stat") in
	T | t) echo paused ;;
	*) echo up ;;
	esac
}

launch() { # node
	local heap=512m
	[ "$(nodes | wc -l)" = 1 ] || heap=384m
	heap=${WEIR_BROKER_HEAP:-$heap}
	properties "$1" >"$dir/$1/server.properties"
	(
		# A lock that the caller holds on an open file must not live on in the broker.
		for fd in /proc/"$BASHPID"/fd/*; do
			fd=${fd##*/}
			[ "$fd" -le 2 ] || eval "exec $fd>&-"
		done
		java_command
		exec setsid "${java[@]}" -Xms64m -Xmx"$heap" kafka.Kafka "$dir/$1/server.properties" >>"$dir/$1/log" 2>&1 </dev/null
	) &
	echo $! >"$dir/$1/pid"
}

# ids asks node $1 for its metadata (Metadata request, version 12) and prints the ids of the brokers that it knows to be
# alive. A broker answers once the controller has let it in.
ids() {
	local reply brokers at id
	reply=$(
		exec 2>/dev/null 3<>"/dev/tcp/127.0.0.1/$(port "$1" PLAINTEXT)" || exit 0
		printf '\0\0\0\x0f\0\x03\0\x0c\0\0\0\0\xff\xff\0\x01\0\0\0' >&3
		timeout 2 dd bs=64K count=1 <&3 | od -An -v -tx1 | tr -d ' \n'
	)
	# length 4, correlation 4, tags 1, throttle time 4, brokers: count+1, then 20 bytes each as the host is 127.0.0.1
	brokers=$((0x0${reply:26:2}))
	for ((at = 28; brokers > 1; brokers--, at += 40)); do
		id=${reply:at:8}
		echo $((0x0$id))
	done
}

await() { # nodes: each must know all of them
	local n want=$* deadline=$((SECONDS + ready_seconds)) missing
	for n in "$@"; do
		while :; do
			missing=$(comm -23 <(printf '%s\n' $want | sort) <(ids "$n" | sort))
			[ -n "$missing" ] || break
			running "$n" || fail "node $n ended: $(tail -5 "$dir/$n/log")"
			[ "$SECONDS" -lt "$deadline" ] || fail "node $n is not ready after $ready_seconds s, see $dir/$n/log"
			sleep 0.1
		done
	done
}

start() {
	local n
	fetch
	[ -f "$dir/ports" ] || format
	for n in "$@"; do
		case $(state "$n") in
		down) launch "$n" ;;
		paused) signal CONT "$n" ;;
		esac
	done
	await "$@"
}

signal() { # signal, nodes
	local s=$1 n
	shift
	for n in "$@"; do
		if running "$n"; then kill -"$s" "$(cat "$dir/$n/pid")"; fi
	done
}

gone() { # nodes
	local n deadline=$((SECONDS + ready_seconds))
	for n in "$@"; do
		while running "$n"; do
			[ "$SECONDS" -lt "$deadline" ] || fail "node $n still runs after $ready_seconds s"
			sleep 0.05
		done
	done
}

wipe() {
	[ -f "$dir/ports" ] || return 0
	signal KILL $(nodes)
	gone $(nodes)
	rm -rf "$dir"
}

status() {
	local n
	for n in $(nodes); do
		echo "$n $(state "$n") $(running "$n" && cat "$dir/$n/pid" || echo -) 127.0.0.1:$(port "$n" PLAINTEXT) $dir/$n/log"
	done
}

brokers() {
	awk '$2 == "PLAINTEXT" { printf "%s127.0.0.1:%s", sep, $3; sep = "," } END { print "" }' "$dir/ports"
}

targets() { # what the user named, or all
	if [ $# -gt 0 ]; then echo "$@"; elif [ -f "$dir/ports" ]; then nodes; fi
}

usage() {
	sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
	exit 2
}

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
fetch | format | wipe) "$command" ;;
start)
	[ -f "$dir/ports" ] || format
	start $(targets "$@")
	brokers
	;;
stop | kill)
	[ "$command" = stop ] && s=TERM || s=KILL
	if [ "$s" = TERM ]; then signal CONT $(targets "$@"); fi
	signal "$s" $(targets "$@")
	gone $(targets "$@")
	;;
pause) signal STOP "${1:?which node}" ;;
resume) signal CONT "${1:?which node}" ;;
wait) await $(targets "$@") ;;
guard)
	trap '' INT TERM HUP
	cat >/dev/null
	wipe
	;;
ports) cat "$dir/ports" ;;
status | brokers)
	[ -f "$dir/ports" ] || fail "no cluster in $dir"
	"$command"
	;;
tool)
	fetch
	run_java "$@"
	;;
*) usage ;;
esac
