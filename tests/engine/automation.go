// A program in Go with the Automation API: it updates a stack whose one component is the cluster.
// Arguments: the stack, the project, and the file of the cluster's section.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

type trainingCluster struct {
	pulumi.ResourceState
}

func main() {
	if err := update(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func update(ctx context.Context, stack, project, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var section map[string]any
	if err := json.Unmarshal(text, &section); err != nil {
		return err
	}
	program := func(ctx *pulumi.Context) error {
		inputs := pulumi.Map{"cluster": input(section)}
		return ctx.RegisterRemoteComponentResource(
			"railhead:index:TrainingCluster", section["name"].(string), inputs, &trainingCluster{})
	}
	chosen, err := auto.UpsertStackInlineSource(ctx, stack, project, program)
	if err != nil {
		return err
	}
	_, err = chosen.Up(ctx)
	return err
}

// input returns a value of JSON as the SDK takes it.
func input(value any) pulumi.Input {
	switch value := value.(type) {
	case map[string]any:
		fields := pulumi.Map{}
		for name, field := range value {
			fields[name] = input(field)
		}
		return fields
	case []any:
		items := pulumi.Array{}
		for _, item := range value {
			items = append(items, input(item))
		}
		return items
	case string:
		return pulumi.String(value)
	case float64:
		return pulumi.Float64(value)
	case bool:
		return pulumi.Bool(value)
	}
	return nil
}
