package serve

import (
	"context"
	"encoding/csv"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/ecrec/ecrec/serve/servepb"
)

// newClient returns a gRPC client.
func newClient(t *testing.T, s *Server, o ...connect.ClientOption) servepb.ServingClient {
	t.Helper()
	var h2 http.Protocols
	h2.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &h2}
	t.Cleanup(transport.CloseIdleConnections)
	return servepb.NewServingClient(&http.Client{Transport: transport}, "http://"+s.Addr(), o...)
}

// messagesOf makes messages of the rows of a CSV file.
func messagesOf(t *testing.T, file string, bags ...string) (rows []*servepb.Row) {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	must(t, err)
	for i, line := range lines[1:] {
		row := &servepb.Row{Columns: map[string]*servepb.Value{}}
		for k, text := range line {
			value := &servepb.Value{Kind: &servepb.Value_Text{Text: text}}
			whole, err := strconv.ParseInt(text, 10, 64)
			switch {
			case text == "":
				value = &servepb.Value{}
			case slices.Contains(bags, lines[0][k]) && i%2 == 0 && text != "none":
				value.Kind = &servepb.Value_List{List: &servepb.List{Texts: strings.Split(text, "|")}}
			case err == nil && i%3 == 0:
				value.Kind = &servepb.Value_Integer{Integer: whole}
			case err == nil && i%3 == 1:
				value.Kind = &servepb.Value_Number{Number: float64(whole)}
			}
			row.Columns[lines[0][k]] = value
		}
		rows = append(rows, row)
	}
	return rows
}

// TestRPC requests the same predictions by gRPC, by gRPC-Web and by Connect: the scores have the bits of ecrec predict.
func TestRPC(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "train.csv"), []byte(formRows(300, 1)), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "eval.csv"), []byte(formRows(600, 2)), 0o600))
	r := trained(t, loadText(t, dir, formConfig))
	s := newServer(t, Options{Lanes: 2})
	eval := filepath.Join(dir, "eval.csv")
	want := r.predicted(t, r.serveAt(t, s, 20), 600, eval)
	for name, o := range map[string][]connect.ClientOption{"gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
		"Connect": {connect.WithProtoJSON()}} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, s, o...)
			ctx := context.Background()
			a, err := c.Predict(ctx, connect.NewRequest(&servepb.PredictRequest{Rows: messagesOf(t, eval, "items")}))
			must(t, err)
			var have []string
			for _, x := range a.Msg.Scores {
				have = append(have, strconv.FormatFloat(float64(x), 'g', -1, 32))
			}
			sameScores(t, have, want)
			m, err := c.Model(ctx, connect.NewRequest(&servepb.ModelRequest{}))
			must(t, err)
			if m.Msg.Marker.Step != 20 || a.Msg.Marker.Digest != m.Msg.Marker.Digest || len(m.Msg.Tables) != 5 || m.Msg.Kind != "deepfm" {
				t.Errorf("%v", m.Msg)
			}
			rows, err := c.Rows(ctx, connect.NewRequest(&servepb.RowsRequest{Table: "city", Ids: []int64{0, 2}}))
			must(t, err)
			if rows.Msg.Width != 5 || len(rows.Msg.Weights) != 10 || rows.Msg.Marker.Step != 20 {
				t.Errorf("%v", rows.Msg)
			}
			for want, call := range map[connect.Code]func() error{
				connect.CodeNotFound: func() error {
					_, err := c.Rows(ctx, connect.NewRequest(&servepb.RowsRequest{Table: "city", Ids: []int64{1000}}))
					return err
				},
				connect.CodeInvalidArgument: func() error {
					_, err := c.Predict(ctx, connect.NewRequest(&servepb.PredictRequest{Rows: []*servepb.Row{{}}}))
					return err
				},
			} {
				if err := call(); connect.CodeOf(err) != want {
					t.Errorf("%v, want the code %v", err, want)
				}
			}
		})
	}
}

// TestRPCWithoutModel: the code of a server that has no model yet.
func TestRPCWithoutModel(t *testing.T) {
	s := newServer(t, Options{})
	_, err := newClient(t, s, connect.WithGRPC()).Model(context.Background(), connect.NewRequest(&servepb.ModelRequest{}))
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Error(err)
	}
}

// TestNumberTexts: a whole number has the text that files have.
func TestNumberTexts(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 3: "3", -17: "-17", 1e6: "1000000", 1234567: "1234567", 1<<53 - 1: "9007199254740991", 0.25: "0.25", 1e300: "1e+300"} {
		if got := string(appendText(nil, x)); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
}
