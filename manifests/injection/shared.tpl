{{- /*
Pieces of the injection templates. Every template file is read with this text before it, so that a
template stands alone in the config map and users can change one without the others.
Pieces that print YAML say at which column they stand.
*/ -}}

{{- /* The image of init containers. */ -}}
{{- define "init-image" -}}
{{- $image := annotation .ObjectMeta `sidecar.istio.io/proxyImage` .Values.global.proxy_init.image }}
{{- if contains "/" $image }}{{ quote $image }}
{{- else if eq .Values.global.proxy_init.image .Values.global.proxy.image }}{{ quote .ProxyImage }}
{{- else }}{{ printf "%s/%s:%v" .Values.global.hub .Values.global.proxy_init.image .Values.global.tag | quote }}
{{- end }}
{{- end }}

{{- /* Column 4: what workload a pod belongs to, for telemetry. */ -}}
{{- define "canonical-labels" }}
{{- $labels := .ObjectMeta.Labels }}
{{- $name := index $labels `service.istio.io/canonical-name` }}
{{- $name = $name | default (index $labels `app.kubernetes.io/name`) | default (index $labels `app`) }}
{{- $name = $name | default .DeploymentMeta.Name }}
{{- $version := index $labels `service.istio.io/canonical-revision` }}
{{- $version = $version | default (index $labels `app.kubernetes.io/version`) | default (index $labels `version`) }}
    service.istio.io/canonical-name: {{ $name | trunc 63 | trimSuffix "-" | quote }}
    service.istio.io/canonical-revision: {{ $version | default "latest" | quote }}
{{- end }}

{{- /* Column 4: which container `kubectl logs` and `kubectl exec` mean. */ -}}
{{- define "default-container" }}
{{- $annotations := .ObjectMeta.Annotations }}
{{- $first := "" }}
{{- range .Spec.Containers }}
  {{- if and (eq $first "") (ne .Name "istio-proxy") }}{{ $first = .Name }}{{ end }}
{{- end }}
{{- if $first }}
{{- if not (isset $annotations `kubectl.kubernetes.io/default-logs-container`) }}
    kubectl.kubernetes.io/default-logs-container: {{ quote $first }}
{{- end }}
{{- if not (isset $annotations `kubectl.kubernetes.io/default-container`) }}
    kubectl.kubernetes.io/default-container: {{ quote $first }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Column 4: requests and limits of the proxy. An annotation replaces all of the values. */ -}}
{{- define "resources" }}
{{- $a := .ObjectMeta.Annotations }}
{{- $cpu := isset $a `sidecar.istio.io/proxyCPU` }}
{{- $memory := isset $a `sidecar.istio.io/proxyMemory` }}
{{- $cpuLimit := isset $a `sidecar.istio.io/proxyCPULimit` }}
{{- $memoryLimit := isset $a `sidecar.istio.io/proxyMemoryLimit` }}
{{- if or $cpu $memory $cpuLimit $memoryLimit }}
    resources:
    {{- if or $cpu $memory }}
      requests:
      {{- if $cpu }}
        cpu: {{ index $a `sidecar.istio.io/proxyCPU` | quote }}
      {{- end }}
      {{- if $memory }}
        memory: {{ index $a `sidecar.istio.io/proxyMemory` | quote }}
      {{- end }}
    {{- end }}
    {{- if or $cpuLimit $memoryLimit }}
      limits:
      {{- if $cpuLimit }}
        cpu: {{ index $a `sidecar.istio.io/proxyCPULimit` | quote }}
      {{- end }}
      {{- if $memoryLimit }}
        memory: {{ index $a `sidecar.istio.io/proxyMemoryLimit` | quote }}
      {{- end }}
    {{- end }}
{{- else if .Values.global.proxy.resources }}
    resources:
      {{ toYaml .Values.global.proxy.resources | trim | indent 6 }}
{{- end }}
{{- end }}

{{- /* Column 4: what every proxy says of its log. */ -}}
{{- define "log-args" }}
    - --proxyLogLevel={{ annotation .ObjectMeta `sidecar.istio.io/logLevel` .Values.global.proxy.logLevel }}
    - --proxyComponentLogLevel={{ annotation .ObjectMeta `sidecar.istio.io/componentLogLevel` .Values.global.proxy.componentLogLevel }}
    - --log_output_level={{ annotation .ObjectMeta `sidecar.istio.io/agentLogLevel` .Values.global.logging.level }}
{{- if .Values.global.sts.servicePort }}
    - --stsPort={{ .Values.global.sts.servicePort }}
{{- end }}
{{- if .Values.global.logAsJson }}
    - --log_as_json
{{- end }}
{{- if .Values.global.proxy.outlierLogPath }}
    - --outlierLogPath={{ .Values.global.proxy.outlierLogPath }}
{{- end }}
{{- end }}

{{- /* Column 4: who the proxy is and who signs its certificates. */ -}}
{{- define "identity-env" }}
{{- with .Values.global.jwtPolicy }}
    - name: JWT_POLICY
      value: {{ quote . }}
{{- end }}
    - name: PILOT_CERT_PROVIDER
      value: {{ .Values.global.pilotCertProvider | quote }}
    - name: CA_ADDR
    {{- if .Values.global.caAddress }}
      value: {{ .Values.global.caAddress | quote }}
    {{- else if .Values.revision }}
      value: "istiod-{{ .Values.revision }}.{{ .Values.global.istioNamespace }}.svc:15012"
    {{- else }}
      value: "istiod.{{ .Values.global.istioNamespace }}.svc:15012"
    {{- end }}
    - name: POD_NAME
      valueFrom:
        fieldRef:
          fieldPath: metadata.name
    - name: POD_NAMESPACE
      valueFrom:
        fieldRef:
          fieldPath: metadata.namespace
    - name: INSTANCE_IP
      valueFrom:
        fieldRef:
          fieldPath: status.podIP
    - name: SERVICE_ACCOUNT
      valueFrom:
        fieldRef:
          fieldPath: spec.serviceAccountName
    - name: HOST_IP
      valueFrom:
        fieldRef:
          fieldPath: status.hostIP
{{- end }}

{{- /* Column 4. */ -}}
{{- define "cpu-env" }}
    - name: ISTIO_CPU_LIMIT
      valueFrom:
        resourceFieldRef:
          resource: limits.cpu
          divisor: "1"
{{- end }}

{{- /* Column 4. */ -}}
{{- define "memory-env" }}
    - name: GOMEMLIMIT
      valueFrom:
        resourceFieldRef:
          resource: limits.memory
          divisor: "1"
{{- end }}

{{- /* Column 4. */ -}}
{{- define "config-env" }}
    - name: PROXY_CONFIG
      value: |
        {{ protoToJSON .ProxyConfig }}
    - name: ISTIO_META_POD_PORTS
      value: |-
        [
        {{- $more := false }}
        {{- range .Spec.Containers }}
        {{- range .Ports }}
            {{ if $more }},{{ end }}{{ structToJSON . }}
        {{- $more = true }}
        {{- end }}
        {{- end }}
        ]
{{- end }}

{{- /* Column 4. */ -}}
{{- define "app-env" }}
{{- $names := list }}
{{- range .Spec.Containers }}
  {{- if ne .Name "istio-proxy" }}{{ $names = append $names .Name }}{{ end }}
{{- end }}
    - name: ISTIO_META_APP_CONTAINERS
    {{- with $names | join "," }}
      value: {{ quote . }}
    {{- end }}
{{- end }}

{{- /* Column 4: where the proxy runs. */ -}}
{{- define "place-env" }}
    - name: ISTIO_META_CLUSTER_ID
      value: {{ valueOrDefault .Values.global.multiCluster.clusterName `Kubernetes` | quote }}
    - name: ISTIO_META_NODE_NAME
      valueFrom:
        fieldRef:
          fieldPath: spec.nodeName
{{- end }}

{{- /* Column 4: what the proxy belongs to. */ -}}
{{- define "workload-env" }}
{{- with .Values.global.network }}
    - name: ISTIO_META_NETWORK
      value: {{ quote . }}
{{- end }}
{{- with index .ObjectMeta.Labels `service.istio.io/workload-name` | default .DeploymentMeta.Name }}
    - name: ISTIO_META_WORKLOAD_NAME
      value: {{ quote . }}
{{- end }}
{{- if and .TypeMeta.APIVersion .DeploymentMeta.Name }}
    - name: ISTIO_META_OWNER
      value: "kubernetes://apis/{{ .TypeMeta.APIVersion }}/namespaces/{{ valueOrDefault .DeploymentMeta.Namespace `default` }}/{{ toLower .TypeMeta.Kind }}s/{{ .DeploymentMeta.Name }}"
{{- end }}
{{- if isset .ObjectMeta.Annotations `sidecar.istio.io/bootstrapOverride` }}
    - name: ISTIO_BOOTSTRAP_OVERRIDE
      value: /etc/istio/custom-bootstrap/custom_bootstrap.json
{{- end }}
{{- $trustDomain := valueOrDefault .MeshConfig.TrustDomain .Values.global.trustDomain }}
{{- with valueOrDefault .Values.global.meshID $trustDomain }}
    - name: ISTIO_META_MESH_ID
      value: {{ quote . }}
{{- end }}
{{- with $trustDomain }}
    - name: TRUST_DOMAIN
      value: {{ quote . }}
{{- end }}
{{- with .CompliancePolicy }}
    - name: COMPLIANCE_POLICY
      value: {{ quote . }}
{{- end }}
{{- end }}

{{- /* Column 4: what the user adds for the proxy. */ -}}
{{- define "user-env" }}
{{- if and (eq .Values.global.proxy.tracer "datadog") (isset .ObjectMeta.Annotations `apm.datadoghq.com/env`) }}
{{- range $key, $value := fromJSON (index .ObjectMeta.Annotations `apm.datadoghq.com/env`) }}
    - name: {{ quote $key }}
      value: {{ quote $value }}
{{- end }}
{{- end }}
{{- range $key, $value := .ProxyConfig.ProxyMetadata }}
    - name: {{ quote $key }}
      value: {{ quote $value }}
{{- end }}
{{- end }}

{{- /* Column 6: how often readiness is asked for. */ -}}
{{- define "readiness-times" }}
{{- $delay := annotation .ObjectMeta `readiness.status.sidecar.istio.io/initialDelaySeconds` .Values.global.proxy.readinessInitialDelaySeconds }}
{{- if ne $delay "0" }}
      initialDelaySeconds: {{ $delay }}
{{- end }}
      periodSeconds: {{ annotation .ObjectMeta `readiness.status.sidecar.istio.io/periodSeconds` .Values.global.proxy.readinessPeriodSeconds }}
      timeoutSeconds: 3
      failureThreshold: {{ annotation .ObjectMeta `readiness.status.sidecar.istio.io/failureThreshold` .Values.global.proxy.readinessFailureThreshold }}
{{- end }}

{{- /* Column 2: volumes that all proxies have. */ -}}
{{- define "volumes" }}
  - name: istio-data
    emptyDir: {}
  - name: istio-podinfo
    downwardAPI:
      items:
      - path: labels
        fieldRef:
          fieldPath: metadata.labels
      - path: annotations
        fieldRef:
          fieldPath: metadata.annotations
  - name: istio-token
    projected:
      sources:
      - serviceAccountToken:
          path: istio-token
          expirationSeconds: 43200
          audience: {{ .Values.global.sds.token.aud }}
{{- if eq .Values.global.pilotCertProvider "istiod" }}
  - name: istiod-ca-cert
    configMap:
      name: {{ valueOrDefault .Values.global.trustBundleName `istio-ca-root-cert` }}
{{- end }}
{{- end }}

{{- /* Column 2: volumes that values and annotations ask for. */ -}}
{{- define "more-volumes" }}
{{- if .Values.global.mountMtlsCerts }}
  - name: istio-certs
    secret:
      optional: true
      secretName: istio.{{ valueOrDefault .Spec.ServiceAccountName `default` }}
{{- end }}
{{- if isset .ObjectMeta.Annotations `sidecar.istio.io/bootstrapOverride` }}
  - name: custom-bootstrap-volume
    configMap:
      name: {{ index .ObjectMeta.Annotations `sidecar.istio.io/bootstrapOverride` | quote }}
{{- end }}
{{- if isset .ObjectMeta.Annotations `sidecar.istio.io/userVolume` }}
{{- range $name, $volume := fromJSON (index .ObjectMeta.Annotations `sidecar.istio.io/userVolume`) }}
  - name: {{ quote $name }}
    {{ toYaml $volume | trim | indent 4 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Column 4: certificates made by others. */ -}}
{{- define "mtls-mount" }}
{{- if .Values.global.mountMtlsCerts }}
    - name: istio-certs
      mountPath: /etc/certs/
      readOnly: true
{{- end }}
{{- end }}

{{- /* Column 4: mounts that annotations ask for. */ -}}
{{- define "more-mounts" }}
{{- if isset .ObjectMeta.Annotations `sidecar.istio.io/bootstrapOverride` }}
    - name: custom-bootstrap-volume
      mountPath: /etc/istio/custom-bootstrap
{{- end }}
{{- if isset .ObjectMeta.Annotations `sidecar.istio.io/userVolumeMount` }}
{{- range $name, $mount := fromJSON (index .ObjectMeta.Annotations `sidecar.istio.io/userVolumeMount`) }}
    - name: {{ quote $name }}
      {{ toYaml $mount | trim | indent 6 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Column 2: the rest of the pod. */ -}}
{{- define "pod-rest" }}
{{- with .Values.global.imagePullSecrets }}
  imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
