// Package gdelttest makes files as GDELT 2.0 publishes them, with as many rows as a test or a
// benchmark wants:
//
//	gdelttest.Batch{Stamp: "20250323151500", Events: 1000, Mentions: 3000}.Write(dir, true)
//
// The same batch always has the same bytes. Every mention is of an event of its batch.
package gdelttest

import (
	"archive/zip"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Batch is a pair of files: the events of a quarter of an hour, and their mentions.
type Batch struct {
	Stamp            string // YYYYMMDDhhmmss, the batch id
	Events, Mentions int    // rows
	First            int64  // globalEventId of the first event; 0: 1,200,000,000
	Seed             uint64
}

func (b Batch) first() int64 {
	if b.First == 0 {
		return 1_200_000_000
	}
	return b.First
}

// Names of the two files, unpacked.
func (b Batch) Names() (export, mentions string) {
	return b.Stamp + ".export.CSV", b.Stamp + ".mentions.CSV"
}

var (
	countries = []string{"USA", "GBR", "DEU", "FRA", "RUS", "CHN", "UKR", "ISR", "IND", "BRA"}
	names     = []string{"UNITED STATES", "BRITAIN", "GERMANY", "FRANCE", "RUSSIA", "CHINA", "UKRAINE", "ISRAEL", "INDIA", "BRAZIL"}
	places    = []string{"Washington, District of Columbia, United States", "London, London, City of, United Kingdom", "Köln, Nordrhein-Westfalen, Germany",
		"Paris, Île-de-France, France", "Kyiv, Kyyiv, Misto, Ukraine", "São Paulo, São Paulo, Brazil"}
	sites = []string{"example.com", "news.example.org", "daily.example.net", "press.example.co.uk"}
	codes = []string{"010", "020", "036", "043", "051", "112", "130", "173", "190"}
)

// row writes cells separated by tabs.
type row struct {
	bytes.Buffer
	open bool
}

func (r *row) cell(s string) {
	if r.open {
		r.WriteByte('\t')
	}
	r.WriteString(s)
	r.open = true
}

func (r *row) end() {
	r.WriteByte('\n')
	r.open = false
}

func (r *row) empty(n int) {
	for range n {
		r.cell("")
	}
}

// Export is the file of events: 61 columns.
func (b Batch) Export() []byte {
	rng := rand.New(rand.NewPCG(b.Seed, 1))
	var r row
	for i := range b.Events {
		r.cell(strconv.FormatInt(b.first()+int64(i), 10))
		r.cell(b.Stamp[:8])
		r.cell(b.Stamp[:6])
		r.cell(b.Stamp[:4])
		r.cell(b.Stamp[:4] + ".2247")
		r.actor(rng, false)
		r.actor(rng, rng.IntN(4) == 0)
		r.cell(strconv.Itoa(rng.IntN(2)))
		code := codes[rng.IntN(len(codes))]
		r.cell(code)
		r.cell(code)
		r.cell(code[:2])
		r.cell(strconv.Itoa(1 + rng.IntN(4)))
		r.cell(fmt.Sprintf("%.1f", rng.Float64()*20-10))
		n := strconv.Itoa(1 + rng.IntN(20))
		r.cell(n)
		r.cell("1")
		r.cell(n)
		r.cell(strconv.FormatFloat(rng.Float64()*20-10, 'f', -1, 64))
		for range 3 {
			r.geo(rng)
		}
		r.cell(b.Stamp)
		r.cell(fmt.Sprintf("https://www.%s/%s/article-%d.html", sites[rng.IntN(len(sites))], b.Stamp[:8], rng.IntN(1_000_000)))
		r.end()
	}
	return r.Bytes()
}

// actor writes the ten columns of one side.
func (r *row) actor(rng *rand.Rand, nobody bool) {
	if nobody {
		r.empty(10)
		return
	}
	n := rng.IntN(len(countries))
	r.cell(countries[n] + "GOV")
	r.cell(names[n])
	r.cell(countries[n])
	r.empty(4)
	r.cell("GOV")
	r.empty(2)
}

// geo writes the eight columns of one place.
func (r *row) geo(rng *rand.Rand) {
	if rng.IntN(6) == 0 {
		r.cell("0")
		r.empty(7)
		return
	}
	place := places[rng.IntN(len(places))]
	r.cell(strconv.Itoa(1 + rng.IntN(5)))
	r.cell(place)
	r.cell(strings.ToUpper(place[:2]))
	r.cell(strings.ToUpper(place[:2]) + "07")
	r.cell("")
	r.cell(fmt.Sprintf("%.4f", rng.Float64()*180-90))
	r.cell(fmt.Sprintf("%.4f", rng.Float64()*360-180))
	r.cell(strconv.Itoa(-rng.IntN(3_000_000)))
}

// MentionsFile is the file of mentions: 16 columns, the last of which GDELT has reserved.
// Some documents mention an event in more than one sentence.
func (b Batch) MentionsFile() []byte {
	rng := rand.New(rand.NewPCG(b.Seed, 2))
	var r row
	document, event, sentence := "", int64(0), 0
	for i := range b.Mentions {
		if sentence++; document == "" || rng.IntN(5) > 0 {
			site := sites[rng.IntN(len(sites))]
			document = fmt.Sprintf("https://www.%s/%s/story-%d.html", site, b.Stamp[:8], i)
			event, sentence = b.first()+int64(rng.IntN(max(b.Events, 1))), 1
		}
		r.cell(strconv.FormatInt(event, 10))
		r.cell(b.Stamp)
		r.cell(b.Stamp)
		r.cell("1")
		r.cell(strings.Split(document, "/")[2][len("www."):])
		r.cell(document)
		r.cell(strconv.Itoa(sentence))
		for range 3 {
			r.cell(strconv.Itoa(rng.IntN(5000) - 1))
		}
		r.cell(strconv.Itoa(rng.IntN(2)))
		r.cell(strconv.Itoa(10 * (1 + rng.IntN(10))))
		r.cell(strconv.Itoa(500 + rng.IntN(9000)))
		r.cell(strconv.FormatFloat(rng.Float64()*20-10, 'f', -1, 64))
		r.empty(2)
		r.end()
	}
	return r.Bytes()
}

// Zip packs one file of a name.
func Zip(name string, content []byte) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create(name)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes()
}

// Write puts both files into a folder, each renamed in when complete, and returns their names.
// A file without rows is not written.
func (b Batch) Write(dir string, zipped bool) (names []string, err error) {
	export, mentions := b.Names()
	for _, f := range []struct {
		name    string
		rows    int
		content func() []byte
	}{{export, b.Events, b.Export}, {mentions, b.Mentions, b.MentionsFile}} {
		if f.rows == 0 {
			continue
		}
		name, content := f.name, f.content()
		if zipped {
			name, content = name+".zip", Zip(name, content)
		}
		if err := Put(dir, name, content); err != nil {
			return names, err
		}
		names = append(names, name)
	}
	return names, nil
}

// Put writes a file into a folder under another name and renames it.
func Put(dir, name string, content []byte) error {
	part := filepath.Join(dir, "."+name+".part")
	if err := os.WriteFile(part, content, 0o600); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(dir, name))
}
