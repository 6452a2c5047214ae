package api

import (
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/queue"
)

// Of queues.
var (
	ListQueues = operation.List[operation.None, Queue]("listQueues", "queues",
		"List the queues: what waits, what is being worked on, how old the oldest is.").For(caller.Viewer).OfEach()
	GetQueue = operation.View[OneQueue, Queue]("getQueue", "queues/{name}",
		"Show one queue: its priorities, its deepest tenants, its settings.").For(caller.Viewer).OfEach()
	PauseQueue = operation.Act[Pausing, Queue]("pauseQueue", "queues/{name}/pause",
		"Hand out nothing from a queue, in all instances, until it is resumed or a time is over. Jobs still come in, and wait.").For(caller.Operator).OfEach()
	ResumeQueue = operation.Act[OneQueue, Queue]("resumeQueue", "queues/{name}/resume",
		"End a pause or a draining.").For(caller.Operator).OfEach()
	DrainQueue = operation.Act[OneQueue, Queue]("drainQueue", "queues/{name}/drain",
		"Let a queue take no more jobs; what is there is worked on.").For(caller.Operator).OfEach()
	SetQueue = operation.Editing(operation.Act[QueueChange, queue.Settings]("setQueue", "queues/{name}/settings",
		"Merge a JSON object into the settings of a queue, as RFC 7396 has it: what it does not name stays, null takes away.").For(caller.Operator).OfEach(), GetQueue.Description)
	ListJobs = operation.List[JobFilter, Job]("listJobs", "queues/{name}/jobs",
		"List jobs of a queue: those of a state, or all that have not ended. A page looks at 10,000 jobs at most that do not match, and for about 40 ms: it may end early, says so in looked, and goes on with next. A tenant's jobs that wait are found without looking at others, those apart that were put off or came back.").For(caller.Viewer).OfEach()
	GetJob = operation.View[OneJob, Job]("getJob", "queues/{name}/job",
		"Show one job: payload, every failed try.").For(caller.Viewer).OfEach()
	GetJobPayload = operation.View[OneJob, operation.Payload]("getJobPayload", "queues/{name}/job/payload",
		"Get the payload of a job alone, byte for byte. It is refused to those for whom something of it is covered.").For(caller.Viewer).OfEach()
	EditJob = operation.Editing(operation.Put[JobEdit, Job]("editJob", "queues/{name}/job/payload",
		"Replace the payload of a job that nobody works on by the body of the request. An empty body needs empty=true.").For(caller.Operator).OfEach(), GetJob.Description)
	RetryJobs = operation.Act[JobMove, Counted]("retryJobs", "queues/{name}/retry",
		"Let failed jobs wait again, as if they were added now.").For(caller.Operator).OfEach()
	PromoteJobs = operation.Act[JobMove, Counted]("promoteJobs", "queues/{name}/promote",
		"Make delayed jobs due.").For(caller.Operator).OfEach()
	RemoveJobs = operation.Act[JobMove, Counted]("removeJobs", "queues/{name}/remove",
		"Take out jobs that are waiting or delayed. They are counted as skipped. More than 10,000 need a login that is not older than 15 minutes.").For(caller.Operator).OfEach()
	CleanJobs = operation.Act[JobMove, Counted]("cleanJobs", "queues/{name}/clean",
		"Forget jobs that have ended. Those that are waiting or delayed are taken out too where state names theirs, or is all. More than 10,000 need a login that is not older than 15 minutes.").For(caller.Operator).OfEach()
)

// OneQueue names a queue.
type OneQueue struct {
	Queue string `path:"name" arg:"" help:"Its name, as tidemill queue list shows it."`
}

// Pausing is a queue to be paused.
type Pausing struct {
	OneQueue
	For string `query:"for" help:"For how long: 10m, 2h. Default: until somebody resumes it." placeholder:"TIME"`
}

// Queue is a queue.
type Queue struct {
	Name       string          `json:"name"`
	Waiting    int64           `json:"waiting"`
	Delayed    int64           `json:"delayed"`
	Leased     int64           `json:"leased"`
	Completed  int64           `json:"completed"` // kept after their end
	Failed     int64           `json:"failed"`    // kept after their end
	Oldest     *time.Time      `json:"oldest_added_at,omitempty"`
	Age        float64         `json:"oldest_age_seconds"` // of the oldest that has not ended; 0: none, and in topics
	Paused     bool            `json:"paused"`
	Closed     bool            `json:"closed"`                 // being drained
	Until      *time.Time      `json:"paused_until,omitempty"` // when it is meant to be resumed, as set at the pause
	Rates      *Rates          `json:"rates,omitempty"`        // left out: not known yet
	Workers    []QueueWorker   `json:"workers,omitempty"`      // the instances that work on it
	Nobody     string          `json:"nobody,omitempty"`       // why nobody works on it, and what to do
	Priorities []PriorityDepth `json:"priorities,omitempty"`   // of one queue: those in which jobs wait
	Settings   *queue.Settings `json:"settings,omitempty"`     // of one queue
	ETag       string          `json:"etag,omitempty"`         // of its settings: what the If-Match of a change of them is compared with
	Tenants    []TenantDepth   `json:"tenants,omitempty"`      // of one queue: the deepest
}

// Version is the ETag.
func (q Queue) Version() string { return q.ETag }

// QueueWorker is the pipeline of an instance that works on a queue.
type QueueWorker struct {
	Instance string     `json:"instance"`
	Host     string     `json:"host,omitempty"`
	State    string     `json:"state"`     // of the pipeline
	InFlight int        `json:"in_flight"` // jobs that it holds under leases, as it last said
	Lanes    int        `json:"lanes"`
	Since    *time.Time `json:"since,omitempty"`
}

// PriorityDepth is what waits of one priority.
type PriorityDepth struct {
	Priority uint8     `json:"priority"`
	Name     string    `json:"name,omitempty"` // of a queue whose priorities have names
	Waiting  int64     `json:"waiting"`
	Oldest   time.Time `json:"oldest_added_at,omitzero"`
}

// TenantsOfAQueue is how many tenants a queue that is looked at has at most, the deepest.
const TenantsOfAQueue = 100

// TenantDepth is what waits of one tenant.
type TenantDepth struct {
	Tenant  string    `json:"tenant"`
	Waiting int64     `json:"waiting"`
	Oldest  time.Time `json:"oldest_added_at,omitzero"`
	Holds   string    `json:"holds,omitempty"` // what may hold them back, beside the turns of others
}

// QueueChange changes the settings of a queue.
type QueueChange struct {
	OneQueue
	Seen
	Body operation.JSON[queue.Settings] `body:"application/merge-patch+json" mib:"4" kong:"-"`
}

// Jobs chooses jobs of a queue.
type Jobs struct {
	Tenant string `query:"tenant" help:"Only jobs of this tenant: a site, or a project's id." placeholder:"NAME"`
	Type   string `query:"type" help:"Only jobs of this type, which is the event's." placeholder:"TYPE"`
	Until  string `query:"until" help:"Only jobs that were added before this time, or, if they have ended, ended before it: 2026-01-31T12:00:00Z, 2026-01-31, 24h (ago), 7d." placeholder:"TIME"`
	Max    int    `query:"max" help:"At most this many, the oldest first." short:"n"`
}

// JobFilter chooses what is listed.
type JobFilter struct {
	OneQueue
	IDs []string `query:"id" kong:"-" help:"Only jobs of these ids."`
	Jobs
	operation.Page
	State string `query:"state" help:"Only jobs of this state: waiting, delayed, leased, completed or failed. Default: all that have not ended." enum:",waiting,delayed,leased,completed,failed" default:"" placeholder:"STATE"`
}

// JobMove chooses what is changed. To mean all of them is to say so.
type JobMove struct {
	OneQueue
	IDs []string `query:"id" arg:"" optional:"" name:"id" help:"Ids of jobs, as tidemill queue jobs shows them."`
	Jobs
	State  string `query:"state" kong:"-" help:"Only jobs of this state, one that the operation is for."`
	All    bool   `query:"all" help:"All jobs that the command is for."`
	DryRun bool   `query:"dry_run" help:"Only say how many."`
}

// OneJob names a job.
type OneJob struct {
	OneQueue
	Job    string  `query:"id" arg:"" name:"id" help:"The job's id, as tidemill queue jobs shows it."`
	Tenant *string `query:"tenant" help:"The job's tenant; needed only if several tenants have the id. With it the job is found faster." placeholder:"NAME"`
}

// JobEdit is a job's new payload.
type JobEdit struct {
	OneJob
	Seen
	operation.NewPayload
}

// Job is a job of a queue.
type Job struct {
	Queue         string     `json:"queue"`
	System        string     `json:"system,omitempty"` // whose queue it is
	ID            string     `json:"id"`
	Tenant        string     `json:"tenant,omitempty"`
	Type          string     `json:"type,omitempty"`
	State         string     `json:"state"` // waiting, delayed, leased, completed, failed
	Priority      uint8      `json:"priority"`
	Tries         int        `json:"tries"`  // failed
	Handed        int        `json:"handed"` // handed out
	Key           string     `json:"key,omitempty"`
	KeyBase64     string     `json:"key_base64,omitempty"`
	Time          *time.Time `json:"time,omitempty"`
	Added         time.Time  `json:"added_at"`
	Due           *time.Time `json:"due_at,omitempty"` // not to be handed out before
	Ended         *time.Time `json:"ended_at,omitempty"`
	Fate          string     `json:"fate,omitempty"`
	Cause         string     `json:"cause,omitempty"`
	ETag          string     `json:"etag" etagOf:"payload,payload_base64"` // of its payload: what an edit\'s If-Match is compared with
	Payload       string     `json:"payload,omitempty" covered:"payload"`
	PayloadBase64 string     `json:"payload_base64,omitempty" covered:"payload"`
	Covered       bool       `json:"covered,omitempty"`  // something of its payload is covered here
	Fields        []Field    `json:"fields,omitempty"`   // its headers
	Attempts      []Attempt  `json:"attempts,omitempty"` // failed tries
	Position      string     `json:"-"`                  // in a listing
}

// InSystem is its system.
func (j Job) InSystem() string { return j.System }

// Version is the ETag.
func (j Job) Version() string { return j.ETag }

// PageKey is its position.
func (j Job) PageKey() string { return j.Position }

// Field is a header of a message.
type Field struct {
	Name        string `json:"name"`
	Value       string `json:"value" covered:"headers" by:"name"`
	ValueBase64 string `json:"value_base64,omitempty" covered:"headers" by:"name"`
}

// Attempt is one failed try.
type Attempt struct {
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"`
	Cause string    `json:"cause"`
}
