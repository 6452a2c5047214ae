package kafkasource

// Kill ends a source as kill -9 does: nothing is committed, the group is not told.
func (s *Source) Kill() {
	s.mu.Lock()
	s.closed = true
	stop, end := s.stop, s.member.end
	s.mu.Unlock()
	if end != nil {
		end()
	}
	if stop != nil {
		stop()
		<-s.ended
	}
	s.asking.Close()
}
