package execution_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// everySpec sets each field of Spec, and each of Limits, in a spec of its own,
// so that a field which is added later cannot be forgotten.
func everySpec(t *testing.T) map[string]execution.Spec {
	t.Helper()
	specs := map[string]execution.Spec{}
	for i, field := range reflect.VisibleFields(reflect.TypeFor[execution.Spec]()) {
		if field.Name == "Limits" {
			continue
		}
		var spec execution.Spec
		fill(t, reflect.ValueOf(&spec).Elem().Field(i))
		specs[field.Name] = spec
	}
	for i, field := range reflect.VisibleFields(reflect.TypeFor[execution.Limits]()) {
		var spec execution.Spec
		fill(t, reflect.ValueOf(&spec.Limits).Elem().Field(i))
		specs["Limits."+field.Name] = spec
	}
	return specs
}

// fill makes a value one that is not the zero value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1 << 30)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	default:
		t.Fatalf("a field of kind %v: teach this test to fill it", v.Kind())
	}
}

// neededBy is which capability each field of a spec needs; "" is none.
var neededBy = map[string]string{
	"Dir": "", "Env": "",
	"Image": "Images", "Platform": "Images", "Pull": "Images", "Name": "Names", "User": "Users", "Mounts": "Mounts",
	"ReadOnly": "ReadOnlyRoot", "Network": "Networks", "Runtime": "Runtimes", "Profile": "Profiles", "Relax": "Profiles",
	"Labels": "Labels", "Limits.Memory": "MemoryLimit", "Limits.CPUs": "CPULimit", "Limits.PIDs": "PIDLimit",
	"Limits.Storage": "StorageLimit", "Detach": "Attach", "Lifetime": "Lifetimes", "IdleTimeout": "Lifetimes",
}

// notInSpec are the capabilities that no field of a spec asks for.
var notInSpec = map[string]bool{"Isolation": true, "TTY": true, "ProvenKill": true}

func only(name string) (can execution.Capabilities) {
	if name != "" {
		reflect.ValueOf(&can).Elem().FieldByName(name).SetBool(true)
	}
	return can
}

func allBut(name string) (can execution.Capabilities) {
	v := reflect.ValueOf(&can).Elem()
	for i := range v.NumField() {
		v.Field(i).SetBool(v.Type().Field(i).Name != name)
	}
	return can
}

func TestCheckCoversEveryField(t *testing.T) {
	for name, spec := range everySpec(t) {
		needed, known := neededBy[name]
		if !known {
			t.Errorf("Spec has a field %s: say in neededBy which capability it needs", name)
			continue
		}
		if err := only(needed).Check(spec); err != nil {
			t.Errorf("%s with only the capability %q: %v", name, needed, err)
		}
		if needed == "" {
			continue
		}
		if err := allBut(needed).Check(spec); !errors.Is(err, execution.ErrUnsupported) {
			t.Errorf("%s with all but the capability %q: got %v, want an error that matches ErrUnsupported", name, needed, err)
		}
	}
}

func TestEveryCapabilityIsAskedFor(t *testing.T) {
	asked := map[string]bool{}
	for _, needed := range neededBy {
		asked[needed] = true
	}
	for field := range reflect.TypeFor[execution.Capabilities]().Fields() {
		if !asked[field.Name] && !notInSpec[field.Name] {
			t.Errorf("the capability %s is asked for by no field of Spec", field.Name)
		}
	}
}

func TestCheckOfTheZeroSpec(t *testing.T) {
	if err := (execution.Capabilities{}).Check(execution.Spec{}); err != nil {
		t.Errorf("a backend that can do nothing refuses the zero spec: %v", err)
	}
}
