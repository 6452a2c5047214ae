package connect

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/backup"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// offerBackup gives the API the backup of the data folder.
func (i *Instance) offerBackup(api *admin.Parts) {
	f := i.Opened()
	if f == nil {
		api.NoBackup = "nothing of this instance is in an embedded database that could be backed up; its state is on servers, which back it up themselves, in this order: " + strings.Join(i.serversToBackUp(), "; ")
		return
	}
	var one sync.Mutex
	api.Backup = func(ctx context.Context, out io.Writer) error {
		if !one.TryLock() {
			return operation.Refuse(http.StatusConflict, "another backup is being made: wait until it has ended")
		}
		defer one.Unlock()
		return i.backUp(ctx, f, out)
	}
}

// backUp writes the archive of the data folder.
func (i *Instance) backUp(ctx context.Context, f *system.File, out io.Writer) (err error) {
	data := i.Config.Data
	if err := i.roomForCopy(ctx, f); err != nil {
		return err
	}
	m := backup.Manifest{Version: i.Version, At: i.Now().UTC(), Systems: i.Systems, Servers: i.serversToBackUp()}
	if m.Schema, err = f.DB.Versions(ctx); err != nil {
		return err
	}
	copied, err := backup.Copy(ctx, data, func(ctx context.Context, to string) error { return f.DB.Copy(ctx, to, nil) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	m.LeftOut = copied.LeftOut
	if err := backup.Write(ctx, out, copied.Folder, m); err != nil {
		return err
	}
	// Logged when a backup was sent whole; `since` is the moment that it has.
	i.Log.InfoContext(ctx, "a backup was made", "since", m.At, "took", i.Now().Sub(m.At))
	return nil
}

// spare is what stays free beside the copy of a backup: events are taken in meanwhile.
const spare = 256 << 20

// roomForCopy refuses a backup whose copy would fill the disk that events need.
func (i *Instance) roomForCopy(ctx context.Context, f *system.File) error {
	size, err := f.DB.Size(ctx)
	if err != nil {
		return err
	}
	if free, err := system.FreeSpace(i.Config.Data); err == nil && free < size+spare {
		return operation.Refuse(http.StatusInsufficientStorage, "the disk of the data folder has %d MiB free, and a backup needs %d MiB for its copy of the database: make room", free>>20, (size+spare)>>20)
	}
	return nil
}

// toBackUp are the products that hold a part of the state, each with what to do, in the order in which
// they are backed up: first those that hold events which are not done yet, last those that have got
// them. What was done in between comes again after a restore, and is known there.
var toBackUp = []struct{ product, do string }{
	{"Kafka", "Kafka: mirror its topics and the offsets of its consumer groups to another cluster"},
	{"Redis", "Redis: redis-cli BGSAVE, and copy dump.rdb when it has ended"},
	{"PostgreSQL", "PostgreSQL: pg_dump --format=custom, or pg_basebackup"},
	{"ClickHouse", "ClickHouse: BACKUP DATABASE … TO …"},
	{"OpenSearch", "OpenSearch: a snapshot of its indices"},
	{"Elasticsearch", "Elasticsearch: a snapshot of its indices"},
}

// serversToBackUp are the servers with a part of the state, each with what to do.
func (i *Instance) serversToBackUp() (all []string) {
	for _, b := range toBackUp {
		if slices.ContainsFunc(i.Uses, func(use string) bool { return strings.Contains(use, ": "+b.product) }) {
			all = append(all, b.do)
		}
	}
	return all
}
