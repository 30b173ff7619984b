// Package placement decides where on the nodes a request goes.
package placement
