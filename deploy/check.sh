#!/bin/sh
# Checks the files here with the tools that are installed, and says which are not:
# promtool, helm (with kubeconform, where its schemas can be had), systemd-analyze, docker.
# Only a check that fails makes it fail.
set -eu
cd "$(dirname "$0")"

have() {
	command -v "$1" >/dev/null 2>&1 || { echo "$1 is not installed: left out"; return 1; }
}

if have promtool; then
	promtool check rules prometheus/*.rules.yaml
	promtool test rules prometheus/*.test.yaml
	promtool check config --syntax-only compose/prometheus/prometheus.yml
fi

if have helm; then
	rendered=$(mktemp -d)
	trap 'rm -rf "$rendered"' EXIT
	secret="--set secrets.existingSecret=tidemill"
	servers="$secret --set mode=servers --set servers.clickhouse.url=http://clickhouse:8123"
	render() {
		name=$1
		shift
		helm lint helm/tidemill --strict --quiet --kube-version 1.33.0 "$@"
		helm template tidemill helm/tidemill --kube-version 1.33.0 "$@" >"$rendered/$name.yaml"
	}
	render embedded $secret
	render delivery $secret --set config.existingSecret=c --set secrets.env.API_KEY_DV360=api-key-dv360
	render everything $secret --set config.existingSecret=c --set ingress.enabled=true --set 'ingress.hosts={events.example.com}' \
		--set networkPolicy.enabled=true --set serviceMonitor.enabled=true --set prometheusRule.enabled=true
	render servers $servers --set podMonitor.enabled=true
	render crm $secret --set mode=servers --set 'systems={crm}'
	! grep -q CLICKHOUSE "$rendered/crm.yaml"
	render redis $servers --set keda.enabled=true --set keda.redisStreams.address=redis:6379
	render kafka $servers --set servers.kafka.brokers=kafka:9092 --set keda.enabled=true --set keda.trigger=kafka \
		--set keda.kafka.topic=events --set keda.kafka.consumerGroup=tidemill
	for refused in "" "--set mode=servers $secret" "--set systems={nonsense} $secret" "--set keda.enabled=true $secret" "--set replicas=2 $secret"; do
		if helm template tidemill helm/tidemill --kube-version 1.33.0 $refused >/dev/null 2>&1; then
			echo "the chart takes $refused" >&2
			exit 1
		fi
	done
	if [ "${KUBECONFORM:-}" = 1 ] && have kubeconform; then # fetches schemas
		kubeconform -strict -ignore-missing-schemas -summary "$rendered"/*.yaml
	fi
	echo "helm: ok"
fi

if have systemd-analyze; then
	unit=$(mktemp -d)
	trap 'rm -rf "$unit" ${rendered:+"$rendered"}' EXIT
	sed "s|^ExecStart=[^ ]*|ExecStart=$(command -v true)|" systemd/tidemill.service >"$unit/tidemill.service"
	systemd-analyze verify "$unit/tidemill.service"
	systemd-analyze security --offline=true --threshold=20 systemd/tidemill.service >"$unit/report" # 2.0 of 10
	tail -1 "$unit/report"
fi

if have docker; then
	if docker compose version >/dev/null 2>&1; then
		for profile in servers embedded; do
			sed 's/=$/=check/' compose/.env.example | docker compose -f compose/compose.yaml --env-file /dev/stdin --profile $profile config --quiet
		done
		echo "compose: ok"
	else
		echo "docker compose is not installed: left out"
	fi
fi
echo "deploy: ok"
