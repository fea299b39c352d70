package place

import (
	"crypto/rand"
	"os"
)

const (
	secretBytes = 32
	// leastSecret is the least length of a secret that a user chooses, so that it cannot be
	// guessed quickly.
	leastSecret = 16
)

// DrawSecret draws a job's secret.
func DrawSecret() []byte {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails
	return secret
}

// CheckSecret returns an error if the user chose a secret that is too short.
func CheckSecret() error {
	if v := os.Getenv(EnvSecret); v != "" && len(v) < leastSecret {
		return Errorf("%s has %d characters, and a secret needs %d or more; set it for all processes to the same random text (export %s=$(openssl rand -hex 16)), or unset it",
			EnvSecret, len(v), leastSecret, EnvSecret)
	}
	return nil
}

// ChosenSecret is the secret that the user gives to processes which have no other.
func ChosenSecret() ([]byte, error) {
	v := os.Getenv(EnvSecret)
	if len(v) < leastSecret {
		return nil, MissingSecret()
	}
	return []byte(v), nil
}

// MissingSecret is the error of a rendezvous that needs a secret and has none.
func MissingSecret() error {
	return Errorf("%s: the processes meet over the network and need a common secret of %d characters or more to recognize each other; set it to the same random text for all (export %s=$(openssl rand -hex 16); with mpirun also -x %s), or let them meet by a file that all machines see: --rdzv FILE",
		EnvSecret, leastSecret, EnvSecret, EnvSecret)
}
