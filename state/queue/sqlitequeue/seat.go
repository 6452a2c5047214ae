package sqlitequeue

import (
	"container/heap"
	"slices"
)

// seat lets a group take its turns where its head belongs, or nowhere.
func (w *waitingSet) seat(s *group) {
	leaf := w.leafOf(s)
	if s.leaf != leaf {
		w.unseat(s)
		if leaf != nil {
			s.leaf = leaf
			heap.Push(&leaf.groups, s)
			leaf.enter()
		}
	} else if leaf != nil && len(leaf.groups) > 1 {
		heap.Fix(&leaf.groups, s.index)
	}
	if s.leaf == nil && !s.asked && s.holder == 0 && len(s.ready)+len(s.back) == 0 && !s.unread() && !s.unsure {
		w.remove(s)
	}
}

// remove drops a group from memory, if it is there.
func (w *waitingSet) remove(s *group) {
	if s.key != "" && w.groups[s.id] != nil {
		w.keyed--
	}
	delete(w.groups, s.id)
}

// leafOf is where a group may take turns now; nil: nowhere.
func (w *waitingSet) leafOf(s *group) *node {
	priority := s.priority
	if s.ordered {
		if s.holder != 0 {
			return nil
		}
		it := s.head()
		if s.unsure || s.shallow() || it != nil && s.lateTo != (after{}) && s.lateTo.less(it.after()) {
			w.ask(s)
			return nil
		}
		if it == nil {
			if s.lateTo != (after{}) {
				w.ask(s)
			}
			return nil
		}
		if priority = it.priority; s.leaf != nil && s.first == it.n {
			return s.leaf
		}
		s.first = it.n
	} else if len(s.ready)+len(s.back) == 0 && !s.unread() {
		return nil
	} else if s.leaf != nil {
		return s.leaf
	}
	key := s.key
	if s.ordered && !w.apart.keyed {
		key = ""
	}
	return w.level(priority).kid(s.tenant).kid(key)
}

// forget drops a group from memory. It is found in the file again. Its caller
// has the turn "handing", or the group takes no turns.
func (w *waitingSet) forget(s *group) {
	if s.asked || len(s.back) > 0 {
		return
	}
	w.unseat(s)
	w.ahead -= len(s.ready)
	if len(s.ready) > 0 || s.unread() {
		w.listing.unlisted, w.listing.missed, w.listing.relists = true, true, true
	}
	s.ready, w.late.vague = nil, true
	w.remove(s)
}

// unseat removes a group from its turns.
func (w *waitingSet) unseat(s *group) {
	if s.leaf == nil {
		return
	}
	leaf := s.leaf
	heap.Remove(&leaf.groups, s.index)
	s.leaf = nil
	if len(leaf.groups) == 0 {
		leaf.exit()
	}
}

// ask notes that an ordered group has to be looked up in the file.
func (w *waitingSet) ask(s *group) {
	if !s.asked {
		s.asked = true
		w.asking = append(w.asking, s)
	}
}

// level returns that priority of the queue.
func (w *waitingSet) level(p uint8) *level {
	at, found := slices.BinarySearchFunc(w.levels, p, func(lv *level, p uint8) int { return int(p) - int(lv.priority) })
	if !found {
		w.levels = slices.Insert(w.levels, at, &level{priority: p})
	}
	return w.levels[at]
}
