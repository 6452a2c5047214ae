package cli

import "testing"

func TestRoomGrowsWithWhatLives(t *testing.T) {
	for live, want := range map[uint64]int64{0: 240 << 20, 100 << 20: 240 << 20, 137 << 20: 240 << 20, 300 << 20: 525 << 20} {
		if got := roomFor(live, roomOnServers); got != want {
			t.Errorf("roomFor(%d MiB) = %d MiB, want %d MiB", live>>20, got>>20, want>>20)
		}
	}
}
