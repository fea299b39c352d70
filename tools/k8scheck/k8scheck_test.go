package k8scheck

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"
)

// TestManifests checks the golden output of ecrec k8s: unknown or repeated fields, wrong types and
// values out of range are errors.
func TestManifests(t *testing.T) {
	validate := schema(t)
	files, err := filepath.Glob("../../k8s/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, second, ok := strings.Cut(string(text), "\n---\n")
		if !ok {
			t.Fatalf("%s is not two documents", file)
		}
		var config corev1.ConfigMap
		if err := yaml.UnmarshalStrict([]byte(first), &config); err != nil || !strings.Contains(config.Data["run.toml"], "[job]\n") {
			t.Errorf("%s: ConfigMap: %v, %q", file, err, config.Data)
		}
		var set v1alpha2.JobSet
		if err := yaml.UnmarshalStrict([]byte(second), &set); err != nil {
			t.Errorf("%s: JobSet: %v", file, err)
		}
		if err := validate(second); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestSchemaIsChecked checks that wrong manifests are refused.
func TestSchemaIsChecked(t *testing.T) {
	validate := schema(t)
	for _, bad := range []string{
		"spec: {replicatedJobs: [{name: p}]}", // no template
		"spec: {replicatedJobs: [{name: p, template: {spec: {completions: many, template: {}}}}]}",
		"spec: {network: {enableDNSHostnames: sure}}",
	} {
		if validate(bad) == nil {
			t.Errorf("%s passes", bad)
		}
	}
}

// schema checks manifests by the schema of JobSet's custom resource.
func schema(t *testing.T) func(text string) error {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/jobset").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(string(bytes.TrimSpace(dir)), "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema,
		&props, nil); err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			return err
		}
		return validation.ValidateCustomResource(field.NewPath("jobset"), object, validator).ToAggregate()
	}
}
