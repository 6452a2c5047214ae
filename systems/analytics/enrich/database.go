package enrich

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"
)

// database is a country database in memory. It is not mapped from its file: truncating a mapped
// file kills the process, and a missing page makes an event wait for the disk.
type database struct {
	reader *maxminddb.Reader
	path   []any // where a record has the country
	file   fileID
}

// fileID tells a file from the one before it.
type fileID struct {
	time time.Time
	size int64
}

func identify(path string) (fileID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileID{}, err
	}
	return fileID{info.ModTime(), info.Size()}, nil
}

// openDatabase reads a file of at most max bytes, also after inflating. It refuses a file that
// is not a database, has no countries, or changes while it is read.
func openDatabase(path string, max int64) (*database, error) {
	before, err := identify(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := unpack(f, max)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	var data bytes.Buffer
	data.Grow(int(min(before.size, max)) + bytes.MinRead)
	if _, err := data.ReadFrom(r); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	after, err := identify(path)
	if err != nil {
		return nil, err
	}
	if after != before {
		return nil, fmt.Errorf("read %s: it is being written; move a finished file into its place", path)
	}
	reader, err := maxminddb.OpenBytes(data.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s is no MMDB database: %w", path, err)
	}
	db := &database{reader: reader, file: before}
	if err := db.probe(); err != nil {
		return nil, fmt.Errorf("%s is of no use: %w", path, err)
	}
	return db, nil
}

// countryPaths are where database makers put the country code: MaxMind and DB-IP, IPinfo.
var countryPaths = [][]any{{"country", "iso_code"}, {"country_code"}, {"country"}}

// probes is how many networks are searched for a country. A country database has one among its
// first few.
const probes = 100_000

// probe finds where the records have the country, and thereby whether they have one and can be
// read.
func (db *database) probe() error {
	seen := 0
	// Empty networks and aliases count too: a broken tree may have endlessly many.
	for network := range db.reader.Networks(maxminddb.IncludeNetworksWithoutData(), maxminddb.IncludeAliasedNetworks()) {
		if err := network.Err(); err != nil {
			return fmt.Errorf("read network %d: %w", seen, err)
		}
		for _, path := range countryPaths {
			var code string
			if err := network.DecodePath(&code, path...); err == nil && isCountry(code) {
				db.path = path
				return nil
			}
		}
		if seen++; seen == probes {
			break
		}
	}
	return fmt.Errorf("the first %d networks of this database (%s) have no country", seen, db.reader.Metadata.DatabaseType)
}

func (db *database) built() time.Time { return db.reader.Metadata.BuildTime().UTC() }

// country looks an address up. On any error the country is unknown.
func (db *database) country(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return ""
	}
	addr = addr.Unmap()
	if !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return ""
	}
	var code string
	if err := db.reader.Lookup(addr).DecodePath(&code, db.path...); err != nil || !isCountry(code) {
		return ""
	}
	return code
}

// isCountry keeps everything but two capital letters out of the column.
func isCountry(code string) bool {
	return len(code) == 2 && 'A' <= code[0] && code[0] <= 'Z' && 'A' <= code[1] && code[1] <= 'Z'
}

// unpack returns the database in r, which may be packed as .gz or .tar.gz. It tells them by
// their content: a server's file name, and whether the transport inflates the file, are not
// reliable. Neither r nor its content may be longer than max.
func unpack(r io.Reader, max int64) (io.Reader, error) {
	const tarMark, tarMarkAt = "ustar", 257
	buf := bufio.NewReaderSize(&limited{r, max}, 4<<10)
	if head, _ := buf.Peek(3); !bytes.Equal(head, []byte{0x1f, 0x8b, 8}) {
		return buf, nil
	}
	zr, err := gzip.NewReader(buf)
	if err != nil {
		return nil, fmt.Errorf("inflate: %w", err)
	}
	buf = bufio.NewReaderSize(&limited{zr, max}, 4<<10)
	if head, _ := buf.Peek(tarMarkAt + len(tarMark)); len(head) <= tarMarkAt || string(head[tarMarkAt:]) != tarMark {
		return buf, nil
	}
	for archive := tar.NewReader(buf); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the archive has no .mmdb file")
		}
		if err != nil {
			return nil, fmt.Errorf("read the archive: %w", err)
		}
		if h.Typeflag == tar.TypeReg && strings.HasSuffix(h.Name, ".mmdb") {
			return archive, nil
		}
	}
}

// limited reads at most n bytes. More are an error, not an end.
type limited struct {
	r io.Reader
	n int64
}

func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.n+1 {
		p = p[:l.n+1]
	}
	n, err := l.r.Read(p)
	if l.n -= int64(n); l.n < 0 {
		return 0, errors.New("it is larger than allowed; raise the limit if it should be")
	}
	return n, err
}
