// Package kafka is a topic of Kafka, or of another broker with its protocol, as a stream.Topic.
//
// A topic is named kafka://HOST:PORT,HOST:PORT/TOPIC, with options as a query:
//
//	tls=true                     encrypt; the broker's certificate is checked, by the CAs of the system or of SSL_CERT_FILE
//	sasl=plain | scram-sha-256 | scram-sha-512    with ECREC_KAFKA_USER and ECREC_KAFKA_PASSWORD
//	replicas=3                   of a topic that is made; default: as the broker is configured
//	retention=limited            accept a topic whose broker drops old records by itself
//	compression=none | lz4 | snappy | zstd        of what is sent; default: none
//
// Producers are idempotent and wait for all replicas that are in sync. A topic that is made keeps all records until they are trimmed.
// The bases of TOPIC are in TOPIC.base.
//
// # Invariants
//
//   - Records of a partition are acknowledged in the order in which they were appended.
//   - A password is part of no message and no name.
package kafka
