{{- define "orbitmq.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "orbitmq.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default (printf "v%s" $.Chart.AppVersion) }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "orbitmq.selector" -}}
app.kubernetes.io/name: orbitmq
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "orbitmq.labels" -}}
{{ include "orbitmq.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* The domain of a headless service's pods. */}}
{{- define "orbitmq.domain" -}}
{{ include "orbitmq.name" .root }}-{{ .component }}.{{ .root.Release.Namespace }}.svc.{{ .root.Values.clusterDomain }}
{{- end -}}

{{/* HOST:PORT of each replica of a component, with `;` between. */}}
{{- define "orbitmq.members" -}}
{{- $found := list -}}
{{- range $i := until (int .replicas) -}}
{{- $found = append $found (printf "%s-%s-%d.%s:%d" (include "orbitmq.name" $.root) $.component $i (include "orbitmq.domain" $) (int $.port)) -}}
{{- end -}}
{{- join ";" $found -}}
{{- end -}}

{{- define "orbitmq.namesrv" -}}
{{ include "orbitmq.members" (dict "root" . "component" "namesrv" "replicas" .Values.namesrv.replicas "port" 9876) }}
{{- end -}}

{{/* Options as arguments. */}}
{{- define "orbitmq.options" -}}
{{- range $name, $value := . }}
{{- $isWhole := false }}
{{- if kindIs "float64" $value }}
{{- $isWhole = eq $value (floor $value) }}
{{- end }}
- {{ printf "--set=%s=%s" $name ($isWhole | ternary (printf "%.0f" (float64 $value)) (toString $value)) | quote }}
{{- end }}
{{- end -}}

{{/* Arguments of every server that has Apache's options. */}}
{{- define "orbitmq.serverArgs" -}}
- --listen=0.0.0.0
- --log-format=json
- --log-level={{ .root.Values.logLevel }}
{{- with .root.Values.tls }}
{{- if .enabled }}
- --set=tls.server.mode={{ .mode }}
- --set=tls.server.certPath=/etc/orbitmq/tls/tls.crt
- --set=tls.server.keyPath=/etc/orbitmq/tls/tls.key
- --set=tls.enable=true
- --set=tls.client.authServer=true
- --set=tls.client.trustCertPath=/etc/orbitmq/tls/ca.crt
{{- if .clientCertificates }}
- --set=tls.server.need.client.auth=require
- --set=tls.server.authClient=true
- --set=tls.server.trustCertPath=/etc/orbitmq/tls/ca.crt
- --set=tls.client.certPath=/etc/orbitmq/tls/tls.crt
- --set=tls.client.keyPath=/etc/orbitmq/tls/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- include "orbitmq.options" .values.options }}
{{- end -}}

{{/* A variable from a key of the secret of access control. */}}
{{- define "orbitmq.secretVariable" -}}
- name: {{ .name }}
  valueFrom: {secretKeyRef: {name: {{ .root.Values.accessControl.secret }}, key: {{ .key }}}}
{{- end -}}

{{- define "orbitmq.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- with .values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "orbitmq.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* What all pods have in common; the containers follow. */}}
{{- define "orbitmq.pod" -}}
# Nothing in it asks Kubernetes.
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- if .values.affinity }}
affinity: {{ toYaml .values.affinity | nindent 2 }}
{{- else if eq .root.Values.antiAffinity "hard" }}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: {{ .root.Values.antiAffinityTopologyKey }}
        labelSelector:
          matchLabels: {{ include "orbitmq.selector" . | nindent 12 }}
{{- else if eq .root.Values.antiAffinity "soft" }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: {{ .root.Values.antiAffinityTopologyKey }}
          labelSelector:
            matchLabels: {{ include "orbitmq.selector" . | nindent 14 }}
{{- end }}
{{- end -}}

{{- define "orbitmq.podMetadata" -}}
labels:
  {{- include "orbitmq.labels" . | nindent 2 }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $scraped := and .root.Values.metrics.annotations .metricsPort }}
{{- if or $scraped .values.podAnnotations }}
annotations:
  {{- if $scraped }}
  prometheus.io/scrape: "true"
  prometheus.io/port: {{ .metricsPort | quote }}
  prometheus.io/path: /metrics
  {{- end }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Probes of the health port. `start` is the number of tries, every 2 s, that a start may take. */}}
{{- define "orbitmq.probes" -}}
startupProbe:
  httpGet: {path: /health/live, port: health}
  periodSeconds: 2
  failureThreshold: {{ .start }}
livenessProbe:
  httpGet: {path: /health/live, port: health}
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /health/ready, port: health}
  periodSeconds: 5
{{- end -}}

{{- define "orbitmq.tlsMount" -}}
{{- if .Values.tls.enabled }}
- {name: tls, mountPath: /etc/orbitmq/tls, readOnly: true}
{{- end }}
{{- end -}}

{{- define "orbitmq.tlsVolume" -}}
{{- if .Values.tls.enabled }}
- name: tls
  secret: {secretName: {{ .Values.tls.secret }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{- define "orbitmq.claim" -}}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: data}
  spec: {{ include "orbitmq.claimSpec" . | nindent 4 }}
{{- end -}}

{{- define "orbitmq.claimSpec" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClass }}
storageClassName: {{ . }}
{{- end }}
resources: {requests: {storage: {{ .size }}}}
{{- end -}}

{{- define "orbitmq.headless" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "orbitmq.name" .root }}-{{ .component }}
  labels: {{ include "orbitmq.labels" . | nindent 4 }}
spec:
  # Clients come to each pod at its own name.
  clusterIP: None
  # The names are there before pods are ready: servers find each other by them while they start.
  publishNotReadyAddresses: true
  selector: {{ include "orbitmq.selector" . | nindent 4 }}
  ports:
  {{- range $name, $port := .ports }}
    - {name: {{ $name }}, port: {{ $port }}}
  {{- end }}
{{- end -}}

{{- define "orbitmq.disruptionBudget" -}}
{{- if and .root.Values.podDisruptionBudget.enabled (gt (int .replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "orbitmq.name" .root }}-{{ .component }}
  labels: {{ include "orbitmq.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .root.Values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels: {{ include "orbitmq.selector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{/* A network policy; `rules` are lists of peers by the ports that they may reach. */}}
{{- define "orbitmq.networkPolicy" -}}
{{- if .root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "orbitmq.name" .root }}-{{ .component }}
  labels: {{ include "orbitmq.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{ include "orbitmq.selector" . | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
    # The release's own servers.
    - from:
        - podSelector:
            matchLabels:
              app.kubernetes.io/name: orbitmq
              app.kubernetes.io/instance: {{ .root.Release.Name }}
    {{- range .rules }}
    {{- if .from }}
    - from: {{ toYaml .from | nindent 8 }}
      ports:
      {{- range .ports }}
        - {protocol: TCP, port: {{ . }}}
      {{- end }}
    {{- end }}
    {{- end }}
{{- end }}
{{- end -}}
