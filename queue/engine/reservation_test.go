package engine_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"fairslice/queue"
)

// reserve is "reserve root -u ada -n 1 -m a -b 1:00 -e 2:00"; commas stand for blanks.
func (s *site) reserve(args []string) (string, bool) {
	id, err := s.e.AddReservation(context.Background(), reservationRequest(args))
	if err != nil {
		return err.Error(), false
	}
	return id, true
}

func reservationRequest(args []string) queue.ReservationRequest {
	q := queue.ReservationRequest{By: identity(args[0])}
	for i := 1; i+1 < len(args); i += 2 {
		switch v := args[i+1]; args[i] {
		case "-u":
			q.Users = strings.Split(v, ",")
		case "-g":
			gid, _ := strconv.Atoi(v)
			q.Groups = []queue.Group{{Name: "g" + v, GID: gid}}
		case "-N":
			q.Name = v
		case "-n":
			q.Slots = atoi(v)
		case "-m":
			q.Hosts = strings.ReplaceAll(v, ",", " ")
		case "-gpu":
			q.GPU = v
		case "-b":
			q.Begin = v
		case "-e":
			q.End = v
		case "-t":
			q.Window = v
		default:
			panic("no such option: " + args[i])
		}
	}
	return q
}

// The clock of these tests begins at midnight of 1 January 2000, a Saturday.
func TestReservations(t *testing.T) {
	play(t, "only administrators make and delete them", `
		join a=4
		reserve ada -u ada -n 1 -m a -b 1:00 -e 2:00 = User permission denied
		reserve root -u ada -n 1 -m a -b 1:00 -e 2:00 = ada#0
		admin ada rsvdel ada#0 = User permission denied
		admin root rsvdel ada#0 = Reservation ada#0 is being deleted
		admin root rsvdel ada#0 = ! ada#0: Bad reservation ID
		admin root rsvdel all = ! all: Bad reservation ID
		events 0 = node-joined reservation-added reservation-deleted`)
	play(t, "two at one time share a node, and no more", `
		join a=4,gpu=1
		reserve root -u ada -n 1 -m a -gpu fgpu=1.5 -b 1:00 -e 2:00 = ada#0
		reserve root -u ada -n 1 -m a -gpu fgpu=1 -b 1:30 -e 3:00 = a: Not enough GPU to be reserved: 1 fGPU wanted, the freest GPU has 0.5; open at the same time: ada#0
		reserve root -u ada -n 3 -m a -gpu fgpu=0.5 -t 6:1:30-6:3:00 = ada#1
		reserve root -N x -u eve -n 1 -m a -b 1:00 -e 2:00 = Not enough processors to be reserved: 1 slots wanted, 0 free; open at the same time: ada#0 ada#1`)
	play(t, "who may submit into one", `
		join a=4
		join b=4
		reserve root -u ada -n 1 -m a -t 6:1:00-6:2:00 = ada#0
		submit ada hold rsv=ada#0 = 1 normal
		submit eve hold rsv=ada#0 = ada#0: User permission denied: the reservation is for others
		submit ada hold rsv=ada#7 = ada#7: Bad reservation ID
		submit ada hold rsv=../x = ../x: Bad reservation ID: it must not hold ".." as a part of a path
		mod ada 1 -U=ada#7 = ! Job <1>: ada#7: Bad reservation ID
		mod ada 1 -m=b = ! Job <1>: b: the host is not in the reservation ada#0
		mod ada 1 -m=a = Parameters of job <1> are being changed
		mod ada 1 -Un = Parameters of job <1> are being changed
		mod ada 1 -m=b = Parameters of job <1> are being changed
		mod ada 1 -U=ada#0 = ! Job <1>: b: the host is not in the reservation ada#0`)
	play(t, "a job says that its reservation is not open, or gone", `
		join a=4
		reserve root -u ada -n 1 -m a -b 1:00 -e 2:00 = ada#0
		submit ada hold rsv=ada#0 = 1 normal
		why 1 = held,reservation
		sleep 61m
		why 1 = held
		admin root rsvdel ada#0 = Reservation ada#0 is being deleted
		why 1 = held,reservation
		reserve root -u ada -n 1 -m a -b 1:30 -e 2:00 = ada#1
		why 1 = held,reservation`)
	play(t, "one that happened once is deleted when it is over, a recurring one is not", `
		join a=4
		reserve root -u ada -n 1 -m a -b 1:00 -e 2:00 = ada#0
		reserve root -u ada -n 1 -m a -t 1:00-2:00 = ada#1
		submit ada hold rsv=ada#0 = 1 normal
		sleep 119m
		events 0 = node-joined reservation-added reservation-added
		sleep 2m
		events 0 = node-joined reservation-added reservation-added reservation-deleted
		why 1 = held,reservation
		submit ada hold rsv=ada#0 = ada#0: Bad reservation ID
		submit ada hold rsv=ada#1 = 2 normal
		sleep 26h
		admin root rsvdel ada#0 = ! ada#0: Bad reservation ID
		admin root rsvdel ada#1 = Reservation ada#1 is being deleted`)
	play(t, "the database is away meanwhile", `
		join a=4
		db fail,ambiguous,fail
		reserve root -u ada -n 1 -m a -b 1:00 -e 2:00 = ada#0
		db ambiguous
		admin root rsvdel ada#0 = Reservation ada#0 is being deleted`)
}
