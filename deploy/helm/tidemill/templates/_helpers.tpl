{{- define "tidemill.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "tidemill.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "tidemill.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "tidemill.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "tidemill.selector" -}}
app.kubernetes.io/name: {{ include "tidemill.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidemill.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "tidemill.selector" . }}
app.kubernetes.io/version: {{ default .Chart.AppVersion .Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "tidemill.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "tidemill.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "tidemill.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{/* Says yes if one of some systems may run, else nothing. */}}
{{- define "tidemill.run" -}}
{{- if not .values.systems -}}yes
{{- else -}}
{{- range .any -}}
{{- if has . $.values.systems -}}yes{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Values that would lose events, or prevent a start, are refused before anything is installed. */}}
{{- define "tidemill.check" -}}
{{- $secret := required "secrets.existingSecret is needed: make a Secret with the API's token and name it" .Values.secrets.existingSecret }}
{{- if eq .Values.mode "servers" }}
{{- if include "tidemill.run" (dict "values" .Values "any" (list "analytics")) }}
{{- $url := required "analytics in mode servers need servers.clickhouse.url" .Values.servers.clickhouse.url }}
{{- end }}
{{- if and (not .Values.servers.postgres.enabled) (include "tidemill.run" (dict "values" .Values "any" (list "analytics" "crm"))) }}
{{- fail "analytics and crm in mode servers need PostgreSQL: without servers.postgres.enabled name other systems" }}
{{- end }}
{{- else if .Values.keda.enabled }}
{{- fail "mode embedded cannot be scaled: keda needs mode servers" }}
{{- end }}
{{- if and .Values.config.text .Values.config.existingSecret }}
{{- fail "config.text and config.existingSecret are both set: the configuration is in one of them" }}
{{- end }}
{{- end }}

{{/* The name of the file of the configuration, or nothing. */}}
{{- define "tidemill.file" -}}
{{- if .Values.config.text -}}tidemill.yaml
{{- else if .Values.config.existingSecret -}}{{ .Values.config.key }}
{{- end -}}
{{- end }}

{{- define "tidemill.secretEnv" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef: {name: {{ .secret | quote }}, key: {{ .key | quote }}}
{{- end }}

{{/* The pod of both modes; the volume "data" is the caller's. */}}
{{- define "tidemill.pod" -}}
{{- $v := .Values -}}
{{- $secret := $v.secrets.existingSecret -}}
metadata:
  labels:
    {{- include "tidemill.labels" . | nindent 4 }}
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or $v.podAnnotations $v.config.text }}
  annotations:
    {{- with $v.config.text }}
    checksum/config: {{ sha256sum . }}
    {{- end }}
    {{- with $v.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  serviceAccountName: {{ include "tidemill.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false # TIDEMILL_… of a Service would be taken for settings
  terminationGracePeriodSeconds: {{ $v.terminationGracePeriodSeconds }}
  {{- with $v.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- toYaml $v.podSecurityContext | nindent 4 }}
  containers:
    - name: tidemill
      image: {{ include "tidemill.image" . | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: [run]
      ports:
        - {name: http, containerPort: 8484, protocol: TCP}
      env:
        - {name: TIDEMILL_DATA, value: /data}
        - {name: TIDEMILL_LISTEN, value: ":8484"}
        - {name: GOMEMLIMIT, value: {{ $v.goMemoryLimit | quote }}}
        {{- include "tidemill.secretEnv" (dict "name" "TIDEMILL_TOKEN" "secret" $secret "key" $v.secrets.keys.token) | nindent 8 }}
        {{- with include "tidemill.file" $ }}
        - {name: TIDEMILL_CONFIG, value: {{ printf "/etc/tidemill/%s" . | quote }}}
        {{- end }}
        {{- with $v.systems }}
        - {name: TIDEMILL_SYSTEMS, value: {{ join "," . | quote }}}
        {{- end }}
        {{- if eq $v.mode "servers" }}
        {{- if include "tidemill.run" (dict "values" $v "any" (list "analytics" "delivery" "crm" "windows")) }}
        {{- include "tidemill.secretEnv" (dict "name" "TIDEMILL_REDIS_URL" "secret" $secret "key" $v.secrets.keys.redisUrl) | nindent 8 }}
        {{- end }}
        {{- if and $v.servers.postgres.enabled (include "tidemill.run" (dict "values" $v "any" (list "analytics" "delivery" "crm"))) }}
        {{- include "tidemill.secretEnv" (dict "name" "TIDEMILL_POSTGRES_URL" "secret" $secret "key" $v.secrets.keys.postgresUrl) | nindent 8 }}
        {{- end }}
        {{- if include "tidemill.run" (dict "values" $v "any" (list "analytics")) }}
        - {name: TIDEMILL_CLICKHOUSE_URL, value: {{ $v.servers.clickhouse.url | quote }}}
        - {name: TIDEMILL_CLICKHOUSE_DB, value: {{ $v.servers.clickhouse.database | quote }}}
        {{- include "tidemill.secretEnv" (dict "name" "CLICKHOUSE_USER" "secret" $secret "key" $v.secrets.keys.clickhouseUser) | nindent 8 }}
        {{- include "tidemill.secretEnv" (dict "name" "CLICKHOUSE_PASSWORD" "secret" $secret "key" $v.secrets.keys.clickhousePassword) | nindent 8 }}
        {{- end }}
        {{- with $v.servers.kafka.brokers }}
        - {name: TIDEMILL_KAFKA_BROKERS, value: {{ . | quote }}}
        {{- end }}
        - {name: TIDEMILL_STRICT, value: {{ $v.servers.strict | quote }}}
        - name: PROCESSOR_CONSUMER_NAME # one for each pod
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- end }}
        {{- range $name, $key := $v.secrets.env }}
        {{- include "tidemill.secretEnv" (dict "name" $name "secret" $secret "key" $key) | nindent 8 }}
        {{- end }}
        {{- range $name, $value := $v.settings }}
        - {name: {{ $name }}, value: {{ $value | quote }}}
        {{- end }}
      startupProbe:
        httpGet: {path: /livez, port: http}
        {{- toYaml $v.probes.startup | nindent 8 }}
      livenessProbe:
        httpGet: {path: /livez, port: http}
        {{- toYaml $v.probes.liveness | nindent 8 }}
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        {{- toYaml $v.probes.readiness | nindent 8 }}
      {{- if gt (int $v.preStopSeconds) 0 }}
      lifecycle:
        preStop: {sleep: {seconds: {{ $v.preStopSeconds }}}}
      {{- end }}
      resources:
        {{- toYaml $v.resources | nindent 8 }}
      securityContext:
        {{- toYaml $v.securityContext | nindent 8 }}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: tmp, mountPath: /tmp}
        {{- if include "tidemill.file" $ }}
        - {name: config, mountPath: /etc/tidemill, readOnly: true}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: 64Mi}
    {{- if $v.config.text }}
    - name: config
      configMap: {name: {{ include "tidemill.fullname" $ }}}
    {{- else if $v.config.existingSecret }}
    - name: config
      secret:
        secretName: {{ $v.config.existingSecret | quote }}
        defaultMode: 0440
    {{- end }}
    {{- if eq $v.mode "servers" }}
    - name: data
      emptyDir: {sizeLimit: {{ $v.cache.sizeLimit }}}
    {{- end }}
  {{- if and (eq $v.mode "servers") $v.topologySpread.enabled }}
  topologySpreadConstraints:
    {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ $key }}
      whenUnsatisfiable: {{ $v.topologySpread.whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- include "tidemill.selector" $ | nindent 10 }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
  {{- with $v.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
