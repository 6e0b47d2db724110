"""Jobs on Kubernetes and OpenShift: a spec, rendered to manifests, submitted, watched, collected."""
