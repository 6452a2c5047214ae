// Package deploy_test checks what is deployed with the binary: dashboards and alerts use
// existing metrics and labels, each alert fires when it should and not otherwise, and each has
// a place in the runbook.
package deploy_test
