// Package topology turns a pipeline file into a logical graph and that into a physical plan, and holds the operator and
// state interfaces. Built-in operators live in its sub-packages.
package topology
