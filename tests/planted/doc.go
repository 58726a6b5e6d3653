// Package planted shows that the checker is sharp: it builds weir once with each planted bug (package internal/planted), runs a
// job with it under kills and faults, and demands that the check is red, as it is green under the same for weir itself.
package planted
