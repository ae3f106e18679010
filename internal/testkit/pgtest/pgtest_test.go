package pgtest

import "testing"

func TestServer(t *testing.T) {
	s := Run(t)
	if err := s.Exec("CREATE TABLE kept (n bigint)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Exec("SELECT * FROM kept"); err == nil {
		t.Error("a server that was stopped answers")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Exec("SELECT * FROM kept"); err != nil {
		t.Errorf("after it was started again: %v", err)
	}
}
