package endpoint

// Unkept logs why events of a request are not durable, and whose they are.
func (x *Exchange) Unkept(tenant string, count int, err error) {
	// Logged when events of a request could not be stored; their sender is answered 503, and asked to
	// send them again.
	// To do: see whether the queue's database is up and its disk has room: nothing is taken in meanwhile.
	x.core.o.Log.WarnContext(x.R.Context(), "events cannot be kept, their sender is asked to retry", "system", x.core.system, "tenant", tenant, "count", count, "error", err)
}

// Unsaid logs why it cannot be said where an event is that somebody asked for.
func (x *Exchange) Unsaid(tenant string, err error) {
	// Logged when a sender asked where an event is, and the store did not answer; the answer is 503.
	// To do: see whether the database that the error names is well.
	x.core.o.Log.WarnContext(x.R.Context(), "where an event is cannot be said", "system", x.core.system, "tenant", tenant, "error", err)
}
