// Package promise says what each system promises of the events that it took in, and judges from
// what arrived whether it kept its word. Simulation and test/faults share it: each has its own way
// of driving a world and of looking at it, neither has rules of its own for what both can see. It
// uses none of the products' rules.
package promise

// Fault notes a violation.
type Fault func(format string, args ...any)
