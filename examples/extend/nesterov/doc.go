// Package nesterov is an example of an update rule: momentum that looks ahead.
package nesterov
