package testenv

import (
	"net"
	"testing"
	"time"
)

func TestPrivateServersDieAndComeBack(t *testing.T) {
	s := Start(t, PrivateRedis)
	up := func() bool {
		c, err := net.DialTimeout("tcp", s.Addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	if !up() {
		t.Fatal("it does not listen after Start")
	}
	s.Kill()
	if up() {
		t.Fatal("it listens after Kill")
	}
	s.Restart()
	if !up() {
		t.Fatal("it does not listen after Restart")
	}
	for range 50 {
		s.Freeze()
		if !still(s.pid()) {
			t.Fatal("a thread runs after Freeze")
		}
		s.Thaw()
		if !up() {
			t.Fatal("it does not listen after Thaw")
		}
	}
}

func TestProxiesCutAndHeal(t *testing.T) {
	s := Start(t, PrivateRedis)
	p := NewLink(t, s.Addr)
	ping := func() error {
		c, err := net.DialTimeout("tcp", p.Addr, time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(300 * time.Millisecond))
		if _, err = c.Write([]byte("PING\r\n")); err == nil {
			_, err = c.Read(make([]byte, 16))
		}
		return err
	}
	if err := ping(); err != nil {
		t.Fatal(err)
	}
	p.BlackHole()
	if err := ping(); err == nil {
		t.Fatal("a link that is cut answers")
	}
	p.Heal()
	if err := ping(); err != nil {
		t.Fatal(err)
	}
	p.Refuse()
	if err := ping(); err == nil {
		t.Fatal("a link that is refused answers")
	}
	p.Heal()
	if err := ping(); err != nil {
		t.Fatal(err)
	}
}

func TestSharedServersAnswer(t *testing.T) {
	for name, get := range map[string]func() string{
		"redis":         func() string { return Redis(t) },
		"redis cluster": func() string { return RedisCluster(t) },
		"postgres":      func() string { return Postgres(t) },
		"clickhouse":    func() string { u, _ := ClickHouse(t); return u },
		"kafka":         func() string { return Kafka(t)[0] },
		"opensearch":    func() string { return OpenSearch(t) },
		"elasticsearch": func() string { return Elasticsearch(t) },
	} {
		if got := get(); got == "" {
			t.Errorf("%s has no address", name)
		} else {
			t.Log(name, got)
		}
	}
}
