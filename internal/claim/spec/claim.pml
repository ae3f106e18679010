/* The claim protocol of dibs, for the model checker spin (https://spinroot.com).
 *
 * If you know locks: several claimers want one lock. It lives in a row of a database that has only
 * GET and PATCH. No compare-and-swap, the last writer wins, and a request may take its time. A lock
 * that is not renewed ends, so that a holder that died does not keep it. This file says what each
 * claimer does, and spin tries every order and every timing of it.
 *
 * What is checked, at each grant: nobody else holds the task and still trusts its claim (holds, with
 * trust left). A holder trusts its claim for LEASE from the moment when it sent it. The others wait
 * longer, see due.
 *
 * Time goes in steps of 20 s, far coarser than the real settings: only which of two times is longer
 * matters. Steps of several parties may share a moment, in any order. All clocks agree.
 *
 * The row has claimed_by, token, status and claimed_at. One write sets the first three together, so
 * `token` stands for them here: nobody, a claimer's claim, or its void mark. `dated` says whose
 * claimed_at is on the row.
 *
 * What is left out: renewals and the end of work (each is a write after the same check as the guard);
 * crashes, failing journals and wrong clocks; the limit of requests; people; a holder's second attempt,
 * and sweeps. A read is answered at once, which loses nothing: the window counts from its sending, so
 * a slow read leaves its writer less time. A write of guard or withdrawal takes SLACK at most.
 *
 * A statement `cond -> ...` waits for cond. The statements of `atomic` happen at one moment: each block
 * below is one request's effect, or one decision. `if` takes any branch whose condition holds. */

#ifndef CLAIMERS
#define CLAIMERS 2 /* or 3: A, B and C */
#endif
#ifndef WINDOW
#define WINDOW 1   /* a claim must be answered within this time of the read */
#endif
#ifndef SETTLE
#define SETTLE 2   /* the wait before the verifying read */
#endif
#ifndef GIVEUP
#define GIVEUP 2   /* when a claimer waits no longer for an answer */
#endif
#ifndef LATE
#define LATE 0     /* for how long after that a claim may still reach the row */
#endif
#ifndef WITHDRAW
#define WITHDRAW 1 /* 0: a claim that came too late is kept, if it is on the row */
#endif
#ifndef GRACE
#define GRACE 5    /* how long a void mark stays, and how long a holder bears a claim over its own */
#endif
#ifndef GUARD
#define GUARD 3    /* a holder looks at the row at least that often; 0: never */
#endif
#ifndef LEASE
#define LEASE 9    /* how long a holder trusts its claim */
#endif
#ifndef EARLY
#define EARLY 0    /* by how much B and C take leases to be shorter than A does */
#endif
#ifndef OLD
#define OLD 0      /* 1: a read may show the row as it was before the last write */
#endif
#define MINUTE  3  /* claimed_at is cut to the minute */
#define ARRIVAL 3  /* how long a write that frees the task may be on its way */
#define SLACK   1
#define NEVER   255

mtype = { void_C, void_B, void_A, C, B, A, nobody };
mtype token = nobody, was_token = nobody;  /* the row, and before its last write (if OLD) */
byte  dated, was_dated;
bool  old;                                 /* this read shows the row as it was */
mtype = { landed, flying, none };
mtype claim[CLAIMERS] = none;              /* the claim write: on its way, or there and not answered */
byte  late[CLAIMERS];                      /* it was given up, and may arrive for that long */
bool  holds[CLAIMERS];
byte  trust[CLAIMERS], due[CLAIMERS];      /* until its lease is over for itself, and for others */
byte  suspect[CLAIMERS];                   /* 1 + what is left of the grace; 0: no suspicion */
byte  age[CLAIMERS];                       /* since its read */
byte  wait[CLAIMERS], must[CLAIMERS];      /* until it may go on, and until it has to */
byte  phase, busy = CLAIMERS;              /* of the minute; how many are not done */
#ifdef STORY
short now;                                 /* only for the story: nothing is decided by it */
#define TICK now++
#else
#define now  0
#define TICK skip
#endif

#define me      _pid
#define ME      (A + me)
#define SEEN    (old -> was_token : token)
#define LEFT    (due[(old -> was_dated : dated)] - (me == 0 -> 0 : EARLY))
#define FREE    (SEEN == nobody)
#define STALE   (!FREE && LEFT <= 0)
#define MINE    (SEEN == ME)
#define OVER    (LEFT <= WINDOW + SETTLE + 1)         /* its holder trusts it no longer */
#define PASSING (OVER || LEFT <= ARRIVAL)             /* somebody may be about to override it */
#define KEEPS   (age[me] <= WINDOW || !WITHDRAW)      /* it came within the window */
#define SAY     printf("%d s  %e", 20 * now, ME); printf

inline look() { old = false; if :: true :: OLD -> old = true fi }
inline put(t, d) { was_token = (OLD -> token : nobody); was_dated = (OLD -> dated : 0); token = t; dated = d }
inline pause(least, most) { old = false; wait[me] = least; must[me] = most }

active [CLAIMERS] proctype Claimer() {
	pause(0, NEVER); /* it comes when it likes */

	/* Pre-flight: read the row and decide. */
	atomic {
		wait[me] == 0 -> look();
		if
		:: FREE -> SAY(" asks for the task and reads %e: it writes its claim\n", SEEN)
		:: STALE -> SAY(" asks for the task and reads %e, stale: it writes its claim\n", SEEN)
		:: !FREE && !STALE -> SAY(" asks for the task and reads %e: it is refused\n", SEEN); goto done
		fi;
		claim[me] = flying; age[me] = 0; trust[me] = LEASE - (me == 0 -> 0 : EARLY);
		/* The whole minute, and the window and the settle wait of its holder, come on top. */
		due[me] = MINUTE - phase + LEASE + WINDOW + SETTLE + 1;
		pause(0, GIVEUP)
	}
	/* The claim is on its way: see lands. */
	atomic {
		if
		:: claim[me] == landed && KEEPS -> SAY(" has its answer in time: it waits %d s\n", 20 * SETTLE); goto settles
		:: claim[me] == landed && !KEEPS -> SAY(" has its answer too late: it looks\n")
		:: must[me] == 0 -> SAY(" gives up waiting for its answer: it looks\n");
			late[me] = (claim[me] == flying -> LATE : 0)
		fi;
		claim[me] = (late[me] -> flying : none); pause(0, 0)
	}
	/* Its fate is unknown: is it there? */
	atomic {
		look();
		if
		:: MINE && KEEPS -> SAY(" looks and reads %e: it waits %d s\n", SEEN, 20 * SETTLE); goto settles
		:: MINE && !KEEPS -> SAY(" looks and reads %e: it withdraws\n", SEEN); goto withdraws
		:: !MINE -> SAY(" looks and reads %e: it waits %d s\n", SEEN, 20 * SETTLE)
		fi;
		pause(SETTLE, SETTLE + SLACK)
	}
	atomic {
		wait[me] == 0 -> look();
		if
		:: MINE && !WITHDRAW -> SAY(" looks and reads %e: it waits %d s\n", SEEN, 20 * SETTLE); goto settles
		:: MINE && WITHDRAW -> SAY(" looks and reads %e: it withdraws\n", SEEN); goto withdraws
		:: !MINE && (FREE || STALE) -> SAY(" looks and reads %e: it gives up\n", SEEN)
		:: !MINE && !FREE && !STALE -> SAY(" looks and reads %e: it has lost\n", SEEN)
		fi;
		goto unseen
	}

settles: /* Wait until no rival that read before our write can still write within its window. */
	atomic { claim[me] = (late[me] -> flying : none); pause(SETTLE, SETTLE + SLACK) }
	atomic {
		wait[me] == 0 -> look();
		if
		:: MINE -> SAY(" verifies and reads %e: it holds the task for %d s\n", SEEN, 20 * trust[me])
		:: !MINE -> SAY(" verifies and reads %e: it has lost\n", SEEN); goto done
		fi;
		assert(!(holds[0] && trust[0]) && !(holds[1] && trust[1]));
		assert(!(holds[CLAIMERS - 1] && trust[CLAIMERS - 1]));
		holds[me] = true; pause(0, (GUARD -> GUARD : NEVER))
	}

held: /* The guard: has a late claim covered ours? Its writer will make it void. */
	atomic {
		if
		:: trust[me] == 0 -> SAY("'s lease ends: it stops\n"); goto done
		:: GUARD && trust[me] -> look();
			if
			:: MINE -> SAY(" guards and reads %e: it goes on\n", SEEN); suspect[me] = 0
			:: SEEN >= void_A -> SAY(" guards and reads %e: it writes its claim back\n", SEEN); pause(0, SLACK); goto restores
			:: !MINE && !FREE && SEEN < void_A && (suspect[me] > 1 || !suspect[me] && GRACE) ->
				SAY(" guards and reads %e: it suspects a late claim\n", SEEN);
				suspect[me] = (suspect[me] -> suspect[me] : GRACE + 1)
			:: FREE || !MINE && SEEN < void_A && (suspect[me] == 1 || !suspect[me] && !GRACE) ->
				SAY(" guards and reads %e: it has lost\n", SEEN); goto done
			fi;
			pause(0, GUARD); goto held
		fi
	}
restores:
	atomic { put(ME, me); SAY("'s claim is back on the row: it goes on\n"); suspect[me] = 0; pause(0, GUARD); goto held }

unseen: /* Not on the row. If it comes after all, a listing of the rows will show it. */
	trust[me] = 0; pause(0, NEVER);
	atomic {
		if
		:: token == ME -> SAY("'s late claim shows: it withdraws\n")
		:: token != ME && claim[me] == none -> goto done
		fi
	}
withdraws: /* Not at once: it may cover a holder's claim. The void mark keeps others away meanwhile. */
	trust[me] = 0; pause(0, 0);
	atomic {
		look();
		if
		:: MINE && !OVER -> SAY(" looks and reads %e: it makes it void\n", SEEN)
		:: MINE && OVER -> SAY(" looks and reads %e: it leaves it\n", SEEN); goto done
		:: !MINE -> SAY(" looks and reads %e: it watches for it\n", SEEN); goto unseen
		fi;
		pause(0, SLACK)
	}
	atomic {
		assert(token != nobody); /* or status and token would part ways, and `token` no longer stand for both */
		put(void_A + me, dated); SAY("'s void mark is on the row: it waits %d s\n", 20 * GRACE);
		pause(GRACE, NEVER)
	}
	atomic {
		wait[me] == 0 -> look();
		if
		:: SEEN == void_A + me && !PASSING -> SAY(" looks after the grace and reads %e: it takes it off\n", SEEN)
		:: SEEN != void_A + me || PASSING -> SAY(" looks after the grace and reads %e: it leaves it\n", SEEN); goto done
		fi;
		pause(0, SLACK)
	}
	atomic { put(nobody, 0); SAY("'s void mark is off the row\n") }

done:	atomic { holds[me] = false; suspect[me] = 0; trust[me] = 0; busy--; pause(0, NEVER) }
}

/* The claim of i reaches the row: at any moment, or never. */
inline lands(i) {
	claim[i] == flying -> put(A + i, i); printf("%d s  %e's claim is on the row\n", 20 * now, A + i);
	claim[i] = (late[i] -> none : landed); late[i] = 0
}

/* Time passes for i. What nobody will look at again is 0: that makes fewer states. */
inline pass(i) {
	wait[i] = wait[i] - (wait[i] > 0); must[i] = must[i] - (must[i] < NEVER);
	age[i] = (claim[i] != none && !late[i] -> age[i] + 1 : 0);
	due[i] = (due[i] && (dated == i && token != nobody || claim[i] == flying || holds[i] || OLD) -> due[i] - 1 : 0);
	trust[i] = trust[i] - (trust[i] > 0); suspect[i] = suspect[i] - (suspect[i] > 1);
	claim[i] = (late[i] == 1 -> none : claim[i]); late[i] = late[i] - (late[i] > 0)
}

active proctype World() {
	do
	:: atomic { lands(0) }
	:: atomic { lands(1) }
	:: atomic { CLAIMERS > 2 -> lands(CLAIMERS - 1) }
	:: d_step { /* a moment ends once nobody has to act in it */
		busy && must[0] && must[1] && must[CLAIMERS - 1] ->
		pass(0); pass(1);
		if :: CLAIMERS > 2 -> pass(CLAIMERS - 1) :: else fi;
		phase = (phase + 1) % MINUTE; TICK }
	od
}
