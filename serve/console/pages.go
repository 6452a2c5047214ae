package console

// page is one page: its address below Prefix, with {wildcards}, and what asks the API for it.
type page struct {
	path string
	show func(*visit) (*view, error)
}

func pages() []page {
	return []page{
		{"{$}", showOverview},
		{"queues", showQueues},
		{"queues/{queue}", showQueue},
		{"queues/{queue}/jobs", showJobs},
		{"queues/{queue}/job", showJob},
		{"owners", showOwners},
		{"owners/one", showOwner},
		{"dead", showDeadLetters},
		{"dead/{system}/{seq}", showDeadLetter},
		{"operations", showOperations},
		{"operations/{id}", showOperation},
		{"books", showBooks},
		{"audit", showTrail},
		{"instances", showInstances},
		{"health", showHealth},
		{"config", showConfig},
		{"reference", showReference},
		{"access", showAccess},
		{"me", showMe},
		{"find", showFind},
		{"explain", showExplain},
		{"menu", showMenu},
	}
}

func actions() []*action {
	return []*action{
		pauseQueue, resumeQueue, drainQueue, setQueue,
		retryJobs, promoteJobs, removeJobs, cleanJobs, editJob,
		replayDead, discardDead, editDead,
		stopOperation, againOperation,
		addUser, setUserRole, setUserPassword, removeUser, makeToken, revokeToken, endAnySession, setMyPassword,
		pausePipeline, resumePipeline,
	}
}

// downloads are addresses that answer with a file.
func downloads() []page {
	return []page{
		{"queues/{queue}/payload", jobPayload},
		{"dead/{system}/{seq}/payload", deadPayload},
		{"dead/{system}/{seq}/original", deadOriginal},
	}
}
