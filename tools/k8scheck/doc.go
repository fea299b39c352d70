// Package k8scheck holds the check of the manifests that ecrec k8s writes, against the types of Kubernetes and JobSet
// and JobSet's schema. It is a module of its own, so that ecrec's module depends on none of them.
package k8scheck
