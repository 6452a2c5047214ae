//go:build !linux

package main

func hasRoom(string, uint64) bool { return false }
