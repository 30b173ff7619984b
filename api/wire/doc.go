// Package wire turns the domain's types into the protocol's messages and back, and holds the error
// codes that both ends speak. It does no I/O, so that commands can use it at no cost.
//
// Times travel as Unix nanoseconds (0 is the zero time) and come back in UTC. Every conversion of a
// type that goes both ways is the inverse of its partner; a test fills all fields by reflection, so a
// field that is added to the domain and forgotten here fails the build.
package wire
