------------------------------- MODULE Publish -------------------------------
(***************************************************************************)
(* How a release goes into service: publishers, the bucket, and the agent  *)
(* in each pod.  docs/publishing.md explains the protocol in words.        *)
(*                                                                         *)
(* `Guards' is the set of rules that are in force.  checks.ts removes them *)
(* one by one, and TLC must find what each of them prevents.               *)
(*                                                                         *)
(* What is left out:                                                       *)
(*  - There is no clock.  A trial may expire, and a client may stop to     *)
(*    wait, at any step.  So the results hold for all clocks.  Lease.tla   *)
(*    has the deadlines.                                                   *)
(*  - Switch.tla has what happens inside a pod while it loads a release.   *)
(*  - A request stays in `net': it is applied at any later step, as often  *)
(*    as Copies says, or never.  Its sender may have gone.  Any response   *)
(*    may be lost.                                                         *)
(*  - Objects have no other content than their key says, because it has    *)
(*    the SHA-256, which S3 and agents verify.                             *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Publishers,   \* each runs one command
  Pods,
  Models,       \* every release has all of them
  Command,      \* [Publishers -> {"publish", "rollback", "prune"}]
  Changes,      \* [Publishers -> SUBSET Models]: what a publish changes
  Number,       \* [Publishers -> Nat]: the version number that it publishes under
  Bytes,        \* [Publishers -> Nat]: what it publishes.  A refused release has left LEFT in the bucket
  Rank,         \* [Publishers -> Nat]: order of the run ids
  BadOn,        \* set of <<release, pod>>: the release does not load there
  StartUp,      \* pods that are up at the start; the others may start later
  Guards,
  MaxRestarts,  \* how often containers restart, in all
  MaxStops,     \* how often pods are deleted, in all
  MaxOutages,   \* how often a pod loses S3, in all
  MaxFailures,  \* how often a pod that starts cannot load head, in all
  OutagesEnd,   \* a pod that lost S3 gets it back
  CanCrash,     \* publishers may die at any step
  CanGiveUp,    \* publishers may time out or be interrupted
  Copies,       \* how often a request to S3 may be applied
  KnowsReady,   \* publishers are told which pods are up, and ask others only if there is none
  LateUploads,  \* a publisher may give up while an upload is under way
  SlowPods,     \* an agent may get an old head, and a load may end when it is not wanted any more
  None          \* a model value

On(g) == g \in Guards
Releases == {"r0", "r1"} \cup Publishers     \* the release of publisher p is called p

(* The key of a file: its content, and the number of prunes before it was   *)
(* planned.  A release names it under a version number.                     *)
Key(m, bytes, sweep) == <<m, bytes, IF On("SweepInKey") THEN sweep ELSE 0>>
BytesOf(key) == key[2]
SweepOf(key) == key[3]
File(number, key) == [number |-> number, key |-> key]
LEFT == 9

(* A rollback writes a manifest of its own, or points head at the old one.  *)
ReleaseOf(p) == IF Command[p] = "rollback" /\ ~On("NewId") THEN "r0" ELSE p

VARIABLES
  s3,    \* objects: keys that exist; manifests: [Releases -> [Models -> file] or None];
         \* head: [release, generation, retained, sweep]
  net,   \* requests under way
  pub,   \* [Publishers -> record]
  pod,   \* [Pods -> record]
  left,  \* faults that may still happen
  was    \* history: head: releases that head named; heads: what agents may have read
vars == <<s3, net, pub, pod, left, was>>

NoHead == [release |-> None, generation |-> 0]
Seen(h) == [release |-> h.release, generation |-> h.generation]
ETag(h) == IF On("Generation") THEN h.generation ELSE h.release

First == [m \in Models |-> File(0, Key(m, 0, 0))]
Changed == CHOOSE m \in Models : TRUE
Second == [First EXCEPT ![Changed] = File(1, Key(Changed, 1, 0))]

Init ==
  /\ s3 = [objects |-> {First[m].key : m \in Models} \cup {Second[Changed].key}
                        \cup {Key(m, Bytes[p], 0) : <<m, p>> \in {c \in Models \X Publishers : Bytes[c[2]] = LEFT}},
           manifests |-> [r \in Releases |-> CASE r = "r0" -> First [] r = "r1" -> Second [] OTHER -> None],
           head |-> [release |-> "r1", generation |-> 1, retained |-> {"r0", "r1"}, sweep |-> 0]]
  /\ net = {}
  /\ pub = [p \in Publishers |->
       [at |-> "start", base |-> None, plan |-> None, upload |-> None, asked |-> {}, served |-> {}, baked |-> FALSE, doomed |-> {}, why |-> None]]
  /\ pod = [d \in Pods |->
       IF d \in StartUp
       THEN [up |-> "up", serves |-> "r1", loading |-> None, trial |-> None, head |-> [release |-> "r1", generation |-> 1],
             home |-> "r1", disk |-> {"r1"}, s3 |-> TRUE]
       ELSE [up |-> "down", serves |-> None, loading |-> None, trial |-> None, head |-> NoHead, home |-> None, disk |-> {}, s3 |-> TRUE]]
  /\ left = [restarts |-> MaxRestarts, stops |-> MaxStops, outages |-> MaxOutages, failures |-> MaxFailures]
  /\ was = [head |-> {}, heads |-> {Seen(s3.head)}]

-------------------------------------------------------------------------------
Complete(r) == s3.manifests[r] # None /\ \A m \in Models : s3.manifests[r][m].key \in s3.objects

(* What stays in `net' of a request that is applied.                        *)
Less(message) ==
  (net \ {message}) \cup (IF message.copies = 1 THEN {} ELSE {[message EXCEPT !.copies = @ - 1]})

Ends == {"ok", "failed", "unknown", "partial", "dead"}
Lives(p) == pub[p].at \notin Ends
Up == {d \in Pods : pod[d].up = "up"}
(* What a pod reports: nothing while it loads, because it has parts of two. *)
Reports(d) == IF pod[d].loading = None THEN pod[d].serves ELSE None

Set(p, field, value) == [pub EXCEPT ![p][field] = value]
Goto(p, at) == Set(p, "at", at)
(* Before it exits with 1, a publisher ends its trials.                     *)
Failing(p, why) == [pub EXCEPT ![p].at = "ending", ![p].why = why]

(* The state tag of a pod changes: it refuses each trial that was asked for *)
(* before, whenever the request arrives.                                    *)
WithoutStale(messages, d) ==
  IF On("StateTag") THEN {m \in messages : ~(m.type = "trial" /\ m.pod = d)} ELSE messages

-------------------------------------------------------------------------------
(* Publishers: plan and upload                                              *)

Start(p) ==
  /\ pub[p].at = "start"
  /\ LET begun == [pub EXCEPT ![p].base = s3.head]
         target == IF On("NameRetained") THEN "r0" \in s3.head.retained ELSE TRUE
     IN CASE Command[p] = "prune" -> pub' = [begun EXCEPT ![p].at = "prune"] /\ UNCHANGED s3
          [] Command[p] = "rollback" /\ ~target -> pub' = [begun EXCEPT ![p].at = "ending", ![p].why = "gone"] /\ UNCHANGED s3
          [] Command[p] = "rollback" /\ target ->
               /\ pub' = [begun EXCEPT ![p].at = "trial"]
               /\ s3' = [s3 EXCEPT !.manifests[ReleaseOf(p)] = s3.manifests["r0"]]
          [] OTHER ->
               /\ pub' = [begun EXCEPT ![p].at = "plan", ![p].plan =
                    [m \in Models |-> IF m \in Changes[p] THEN None ELSE s3.manifests[s3.head.release][m]]]
               /\ UNCHANGED s3
  /\ UNCHANGED <<net, pod, left, was>>

(* One model after the other: name a file of a retained release, or upload. *)
Plan(p) ==
  /\ pub[p].at = "plan"
  /\ LET me == pub[p]
         missing == {m \in Models : me.plan[m] = None}
     IN IF missing = {}
        THEN /\ s3' = [s3 EXCEPT !.manifests[p] = me.plan]
             /\ pub' = Goto(p, "trial") /\ UNCHANGED net
        ELSE LET m == CHOOSE x \in missing : TRUE
                 known == {r \in Releases : s3.manifests[r] # None /\ (On("NameRetained") => r \in me.base.retained)}
                 named == {s3.manifests[r][m] : r \in known}
                 numbered == {BytesOf(f.key) : f \in {f \in named : f.number = Number[p]}}
                 same == {f.key : f \in {f \in named : BytesOf(f.key) = Bytes[p]}}
                 new == Key(m, Bytes[p], me.base.sweep)
                 plan(key) == [me.plan EXCEPT ![m] = File(Number[p], key)]
             IN /\ UNCHANGED s3
                /\ IF On("Conflict") /\ numbered \notin {{}, {Bytes[p]}}
                   THEN pub' = Failing(p, "conflict") /\ UNCHANGED net
                   ELSE IF same # {}
                   THEN pub' = Set(p, "plan", plan(CHOOSE key \in same : TRUE)) /\ UNCHANGED net
                   ELSE /\ net' = net \cup {[type |-> "put", key |-> new, copies |-> Copies]}
                        /\ pub' = [pub EXCEPT ![p].at = "upload", ![p].plan = plan(new), ![p].upload = new]
  /\ UNCHANGED <<pod, left, was>>

ApplyPut(message) ==
  /\ message.type = "put" /\ net' = Less(message)
  /\ s3' = [s3 EXCEPT !.objects = @ \cup {message.key}]
  /\ UNCHANGED <<pub, pod, left, was>>

(* The object is there: of this publisher, or of another one.               *)
Uploaded(p) ==
  /\ pub[p].at = "upload" /\ pub[p].upload \in s3.objects
  /\ pub' = [pub EXCEPT ![p].at = "plan", ![p].upload = None]
  /\ UNCHANGED <<s3, net, pod, left, was>>

GiveUpUpload(p) ==
  /\ LateUploads /\ pub[p].at = "upload" /\ pub' = Failing(p, "timeout")
  /\ UNCHANGED <<s3, net, pod, left, was>>

-------------------------------------------------------------------------------
(* Publishers: trials                                                       *)

Pending(p, d) == \E m \in net : m.type = "trial" /\ m.by = p /\ m.pod = d

(* First one pod, the canary.  When it has served the release for long      *)
(* enough, any others.  The request carries the pod's state tag.  A pod     *)
(* that cannot load head may be asked too.                                  *)
Ask(p, d) ==
  /\ pub[p].at = "trial" /\ pod[d].up # "down" /\ pod[d].trial # p /\ ~Pending(p, d)
  /\ KnowsReady => pod[d].up = "up" \/ Up = {}
  /\ On("Canary") => pub[p].asked \ {d} = {} \/ pub[p].baked
  /\ On("AllPods") \/ pub[p].asked \subseteq {d}
  /\ pub' = [pub EXCEPT ![p].asked = @ \cup {d}, ![p].served = @ \ {d}]
  /\ net' = net \cup {[type |-> "trial", by |-> p, pod |-> d]}
  /\ UNCHANGED <<s3, pod, left, was>>

Confirm(p, d) ==
  /\ pub[p].at = "trial" /\ d \in pub[p].asked \ pub[p].served
  /\ pod[d].up = "up" /\ pod[d].trial = p /\ Reports(d) = ReleaseOf(p)
  /\ pub' = Set(p, "served", pub[p].served \cup {d})
  /\ UNCHANGED <<s3, net, pod, left, was>>

(* What clients get of the canary was compared with what they get of the    *)
(* other pods, for as long as the user wants.                               *)
Bake(p) ==
  /\ pub[p].at = "trial" /\ ~pub[p].baked /\ pub[p].served # {}
  /\ pub' = Set(p, "baked", TRUE)
  /\ UNCHANGED <<s3, net, pod, left, was>>

(* It answers worse than they do, also after that time.                     *)
GoBack(p) ==
  /\ CanGiveUp /\ pub[p].at = "trial" /\ pub[p].served # {} /\ pub' = Failing(p, "worse")
  /\ UNCHANGED <<s3, net, pod, left, was>>

GiveUp(p) ==
  /\ CanGiveUp /\ pub[p].at = "trial" /\ pub' = Failing(p, "timeout")
  /\ UNCHANGED <<s3, net, pod, left, was>>

(* The publisher ends its trial on a pod; also one that the pod has not     *)
(* heard of yet.                                                            *)
End(p, d) ==
  /\ pub[p].at = "ending" /\ d \in pub[p].asked /\ pod[d].up # "down"
  /\ pod[d].trial = p \/ Pending(p, d)
  /\ pod' = IF pod[d].trial = p THEN [pod EXCEPT ![d].trial = None] ELSE pod
  /\ net' = WithoutStale(net, d)
  /\ UNCHANGED <<s3, pub, left, was>>

(* Exit 1: head was not changed, and the pods serve what they served.       *)
Ended(p) ==
  /\ pub[p].at = "ending"
  /\ \A d \in pub[p].asked : pod[d].up # "down" =>
       /\ pod[d].trial # p /\ pod[d].serves # ReleaseOf(p) /\ pod[d].loading # ReleaseOf(p)
       /\ On("StateTag") => ~Pending(p, d)
  /\ pub' = Goto(p, "failed")
  /\ UNCHANGED <<s3, net, pod, left, was>>

-------------------------------------------------------------------------------
(* Publishers: commit                                                       *)

HeadPut(p, kind, h, expects) ==
  [type |-> "head", by |-> p, kind |-> kind, head |-> h, expects |-> expects, copies |-> Copies]
(* What takes the place of head h.                                          *)
After(h, release, retained, sweep) ==
  [release |-> release, retained |-> retained, sweep |-> sweep]

Commit(p) ==
  /\ pub[p].at = "trial"
  /\ On("BakeFirst") /\ Pods # {} => pub[p].baked
  /\ On("WaitForPods") /\ Pods # {} => pub[p].served \cap Up # {}
  /\ On("AllPods") => Up \subseteq pub[p].asked
  /\ pub[p].asked \cap Up \subseteq pub[p].served
  /\ On("CheckTrials") => \A d \in pub[p].asked \cap Up : pod[d].trial = p /\ Reports(d) = ReleaseOf(p)
  /\ LET base == IF On("BaseAtStart") THEN pub[p].base ELSE s3.head
         next(kept) == After(base, ReleaseOf(p), kept \cup {ReleaseOf(p)}, base.sweep)
     \* Of many releases only some are retained.
     IN \E kept \in {base.retained, {base.release}} : net' = net \cup {HeadPut(p, "commit", next(kept), ETag(base))}
  /\ pub' = Goto(p, "commit")
  /\ UNCHANGED <<s3, pod, left, was>>

(* S3 applies a request that replaces head.json.                            *)
ApplyHead(message) ==
  /\ message.type = "head"
  /\ LET p == message.by
         done == message.expects = ETag(s3.head) \/ ~On("IfMatch")
         waits == pub[p].at = message.kind
         responds ==
           CASE message.kind = "commit" /\ done -> Goto(p, "after")
             [] message.kind = "commit" /\ ~done -> IF On("ReadAfter412") THEN Goto(p, "check") ELSE Failing(p, "overtaken")
             [] message.kind = "fence" /\ done -> Failing(p, "fenced")
             [] message.kind = "fence" /\ ~done -> Goto(p, "check")
             [] message.kind = "pruning" /\ done -> Goto(p, "delete")
             [] message.kind = "pruning" /\ ~done -> Failing(p, "overtaken")
     IN /\ net' = Less(message)
        /\ IF done
           THEN /\ s3' = [s3 EXCEPT !.head = [release |-> message.head.release, generation |-> s3.head.generation + 1,
                                              retained |-> message.head.retained, sweep |-> message.head.sweep]]
                /\ was' = [was EXCEPT !.head = IF message.kind = "commit" THEN @ \cup {p} ELSE @,
                                      !.heads = IF SlowPods THEN @ \cup {Seen(s3'.head)} ELSE {Seen(s3'.head)}]
           ELSE UNCHANGED <<s3, was>>
        /\ pub' = pub \/ (waits /\ pub' = responds)    \* no response, or this one
  /\ UNCHANGED <<pod, left>>

(* No response in time.  The request may still be applied.                  *)
Timeout(p) ==
  /\ \/ pub[p].at \in {"commit", "fence"} /\ pub' = IF On("ReadBack") THEN Goto(p, "check") ELSE Failing(p, "lost")
     \/ pub[p].at = "pruning" /\ pub' = Failing(p, "lost")
  /\ UNCHANGED <<s3, net, pod, left, was>>

(* Read head, and the releases before it down to the base.                  *)
Check(p) ==
  /\ pub[p].at = "check"
  /\ IF s3.head.release = ReleaseOf(p) \/ (On("History") /\ p \in was.head)
     THEN pub' = Goto(p, "after") /\ UNCHANGED net
     ELSE IF On("Fence") /\ ETag(s3.head) = ETag(pub[p].base)
     THEN /\ net' = net \cup {HeadPut(p, "fence", After(s3.head, s3.head.release, s3.head.retained, s3.head.sweep), ETag(s3.head))}
          /\ pub' = Goto(p, "fence")
     ELSE pub' = Failing(p, "overtaken") /\ UNCHANGED net
  /\ UNCHANGED <<s3, pod, left, was>>

(* Exit 3: head can neither be read nor fenced, or a pod does not answer.   *)
GiveUpUnknown(p) ==
  /\ CanGiveUp /\ pub[p].at \in {"check", "fence", "ending"} /\ pub' = Goto(p, "unknown")
  /\ UNCHANGED <<s3, net, pod, left, was>>

(* The publisher sees that a pod has read the new head.                     *)
Acknowledge(p, d) ==
  /\ pub[p].at = "after" /\ d \in pub[p].asked \cap Up
  /\ Reports(d) = ReleaseOf(p) /\ pod[d].head.generation > pub[p].base.generation
  /\ pub' = Set(p, "asked", pub[p].asked \ {d})
  /\ UNCHANGED <<s3, net, pod, left, was>>

(* It waits for a pod that has gone back because its trial has ended, too.  *)
Finish(p) ==
  /\ pub[p].at = "after"
  /\ On("Acknowledge") => pub[p].asked = {}
  /\ pub' = Goto(p, "ok")
  /\ UNCHANGED <<s3, net, pod, left, was>>

(* Exit 3: in service, but not on every pod in time.                        *)
FinishPartly(p) ==
  /\ CanGiveUp /\ pub[p].at = "after" /\ On("Acknowledge")
  /\ pub' = Goto(p, "partial")
  /\ UNCHANGED <<s3, net, pod, left, was>>

Crash(p) ==
  /\ CanCrash /\ Lives(p) /\ pub' = Goto(p, "dead")
  /\ UNCHANGED <<s3, net, pod, left, was>>

-------------------------------------------------------------------------------
(* Publishers: prune.  It retains the release of head only, and deletes     *)
(* nothing of publishers that plan after it.                                *)

Prune(p) ==
  /\ pub[p].at = "prune"
  /\ LET base == pub[p].base
         doomed == {k \in s3.objects : SweepOf(k) <= base.sweep} \ {s3.manifests[base.release][m].key : m \in Models}
     IN /\ pub' = [pub EXCEPT ![p].doomed = doomed, ![p].at = IF On("PruneCommits") THEN "pruning" ELSE "delete"]
        /\ IF On("PruneCommits")
           THEN net' = net \cup {HeadPut(p, "pruning", After(base, base.release, {base.release}, base.sweep + 1), ETag(base))}
           ELSE UNCHANGED net
  /\ UNCHANGED <<s3, pod, left, was>>

SendDelete(p) ==
  /\ pub[p].at = "delete"
  /\ IF pub[p].doomed = {} THEN pub' = Goto(p, "ok") /\ UNCHANGED net
     ELSE LET k == CHOOSE x \in pub[p].doomed : TRUE
          IN /\ pub' = Set(p, "doomed", pub[p].doomed \ {k})
             /\ net' = net \cup {[type |-> "delete", key |-> k, copies |-> Copies]}
  /\ UNCHANGED <<s3, pod, left, was>>

ApplyDelete(message) ==
  /\ message.type = "delete" /\ net' = Less(message)
  /\ s3' = [s3 EXCEPT !.objects = @ \ {message.key}]
  /\ UNCHANGED <<pub, pod, left, was>>

-------------------------------------------------------------------------------
(* Agents                                                                   *)

Refused(p, why) == IF pub[p].at = "trial" THEN Failing(p, why) ELSE pub

Begin(p, d) == [pod EXCEPT ![d].trial = p]

ReceiveTrial(message) ==
  /\ message.type = "trial" /\ pod[message.pod].up # "down"
  /\ LET p == message.by
         d == message.pod
         me == pod[d]
         rest == net \ {message}
         other == On("OneTrial") /\ me.trial \notin {None, p}
         waits == On("Order") /\ other /\ Rank[p] < Rank[me.trial]   \* it asks again
         stale == On("BaseCheck") /\ me.head.generation > pub[p].base.generation
     IN IF stale THEN net' = rest /\ pub' = Refused(p, "overtaken") /\ UNCHANGED pod
        ELSE IF other THEN net' = rest /\ pub' = (IF waits THEN pub ELSE Refused(p, "busy")) /\ UNCHANGED pod
        ELSE \/ pod' = Begin(p, d) /\ net' = WithoutStale(rest, d) /\ UNCHANGED pub
             \/ me.up = "starting" /\ net' = rest /\ UNCHANGED <<pod, pub>>   \* its Triton has not answered yet
  /\ UNCHANGED <<s3, left, was>>

(* A renewal may arrive at any time after the first request.  It never      *)
(* begins a trial, so it changes nothing here.                              *)
ReceiveRenewal(p, d) ==
  /\ ~On("RenewOnly") /\ d \in pub[p].asked /\ pod[d].up = "up" /\ pod[d].trial = None
  /\ pod' = Begin(p, d)
  /\ UNCHANGED <<s3, net, pub, left, was>>

Expire(d) ==
  /\ On("Expiry") /\ pod[d].trial # None
  /\ pod' = [pod EXCEPT ![d].trial = None, ![d].head = IF On("KeepHead") THEN @ ELSE NoHead]
  /\ net' = WithoutStale(net, d)
  /\ UNCHANGED <<s3, pub, left, was>>

(* The agent reads head, or gets an answer that was under way for long.  A  *)
(* trial of this release ends well; a trial whose base is no longer head    *)
(* ends.                                                                    *)
ReadHead(d) ==
  /\ pod[d].up # "down" /\ pod[d].s3
  /\ On("Reread") \/ pod[d].up = "up" \/ pod[d].head = NoHead
  /\ \E h \in was.heads :
     LET me == pod[d]
         ends == me.trial # None /\
                   (ReleaseOf(me.trial) = h.release \/ (On("BaseCheck") /\ h.generation > pub[me.trial].base.generation))
     IN /\ IF On("NewerHead") THEN h.generation > me.head.generation ELSE h # me.head
        /\ pod' = [pod EXCEPT ![d].head = h,
                              ![d].trial = IF ends THEN None ELSE @,
                              ![d].home = IF Reports(d) = h.release THEN h.release ELSE @]
        /\ net' = WithoutStale(net, d)
  /\ UNCHANGED <<s3, pub, left, was>>

(* The release that the agent works towards.                                *)
Target(d) ==
  LET me == pod[d] IN
  IF me.trial # None THEN ReleaseOf(me.trial)
  ELSE IF On("HomeFirst") /\ me.serves # None /\ me.home # None /\ me.serves \notin {me.home, me.head.release} THEN me.home
  ELSE IF On("HomeNothing") /\ me.home = None /\ me.serves \notin {None, me.head.release} THEN None
  ELSE IF On("HomeFirst") /\ me.serves = None /\ me.home \in me.disk /\ me.head.release \notin me.disk /\ ~me.s3 THEN me.home
  ELSE me.head.release

Wants(d) == pod[d].up # "down" /\ Target(d) \notin {None, pod[d].loading} /\ Reports(d) # Target(d)

Download(d) ==
  /\ Wants(d) /\ pod[d].s3 /\ Target(d) \notin pod[d].disk /\ Complete(Target(d))
  /\ LET r == Target(d)
         me == pod[d]
         keep == {r, me.serves} \cup (IF On("KeepHomeFiles") THEN {me.home} ELSE {})
     IN pod' = [pod EXCEPT ![d].disk = (@ \cap keep) \cup {r}]
  /\ UNCHANGED <<s3, net, pub, left, was>>

(* A file is missing.                                                       *)
Missing(d) ==
  /\ Wants(d) /\ pod[d].s3 /\ pod[d].trial # None /\ Target(d) \notin pod[d].disk /\ ~Complete(Target(d))
  /\ pub' = Refused(pod[d].trial, "refused")
  /\ pod' = [pod EXCEPT ![d].trial = None]
  /\ net' = WithoutStale(net, d)
  /\ UNCHANGED <<s3, left, was>>

(* A load begins, maybe instead of one that is not wanted any more.  After  *)
(* that the pod has parts of two releases, until a load succeeds.           *)
StartLoad(d) ==
  /\ SlowPods
  /\ \E r \in {Target(d), pod[d].home} \ {None, pod[d].loading} :
       /\ r = Target(d) => Wants(d)
       /\ r # Target(d) => pod[d].loading # None /\ pod[d].trial = None
       /\ r \in pod[d].disk /\ (<<r, d>> \in BadOn => pod[d].trial # None)
       /\ pod' = [pod EXCEPT ![d].loading = r]
  /\ UNCHANGED <<s3, net, pub, left, was>>

(* A pod that served nothing before a trial unloads its release.            *)
Unload(d) ==
  /\ On("HomeNothing") /\ pod[d].up = "up" /\ pod[d].trial = None /\ pod[d].loading = None /\ pod[d].home = None
  /\ pod[d].serves \notin {None, pod[d].head.release}
  /\ pod' = [pod EXCEPT ![d].serves = None, ![d].up = "starting"]
  /\ UNCHANGED <<s3, net, pub, left, was>>

(* The release is loaded, maybe after its trial has ended; or it is refused, *)
(* and what was served is restored.                                         *)
Loads(d, r) ==
  /\ LET me == pod[d]
         tried == me.trial # None /\ ReleaseOf(me.trial) = r
     IN IF <<r, d>> \in BadOn
        THEN /\ pub' = IF tried THEN Refused(me.trial, "refused") ELSE pub
             /\ pod' = [pod EXCEPT ![d].trial = IF tried THEN None ELSE @, ![d].loading = None]
             /\ net' = IF tried THEN WithoutStale(net, d) ELSE net
        ELSE /\ pod' = [pod EXCEPT ![d].serves = r, ![d].up = "up", ![d].loading = None,
                                   ![d].home = IF r = me.head.release THEN r ELSE @,
                                   ![d].disk = IF On("KeepHomeFiles") \/ ~tried THEN @ ELSE {r}]
             /\ UNCHANGED <<pub, net>>
  /\ UNCHANGED <<s3, left, was>>

EndLoad(d) == pod[d].loading # None /\ Loads(d, pod[d].loading)
Load(d) ==
  /\ ~SlowPods /\ Wants(d) /\ Target(d) \in pod[d].disk
  /\ <<Target(d), d>> \in BadOn => pod[d].trial # None
  /\ Loads(d, Target(d))

(* A pod that starts, and cannot load head at the moment, serves home.      *)
FallBack(d) ==
  /\ pod[d].up = "starting" /\ pod[d].trial = None /\ pod[d].loading = None /\ left.failures > 0
  /\ pod[d].home \in pod[d].disk /\ pod[d].home # pod[d].head.release
  /\ left' = [left EXCEPT !.failures = @ - 1]
  /\ pod' = [pod EXCEPT ![d].serves = pod[d].home, ![d].up = "up"]
  /\ UNCHANGED <<s3, net, pub, was>>

(* No publisher knows a pod that is new.                                    *)
Forget(d) == [p \in Publishers |-> [pub[p] EXCEPT !.asked = @ \ {d}, !.served = @ \ {d}]]

(* The pod's containers restart.  Its disk survives.                        *)
Restart(d) ==
  /\ pod[d].up = "up" \/ (pod[d].up = "starting" /\ pod[d].trial # None)
  /\ left.restarts > 0
  /\ left' = [left EXCEPT !.restarts = @ - 1]
  /\ pod' = [pod EXCEPT ![d].up = "starting", ![d].serves = None, ![d].loading = None, ![d].trial = None,
                        ![d].head = IF On("KeepHead") THEN @ ELSE NoHead]
  /\ pub' = Forget(d) /\ net' = WithoutStale(net, d)
  /\ UNCHANGED <<s3, was>>

Stop(d) ==
  /\ pod[d].up # "down" /\ left.stops > 0
  /\ left' = [left EXCEPT !.stops = @ - 1]
  /\ pod' = [pod EXCEPT ![d] = [up |-> "down", serves |-> None, loading |-> None, trial |-> None, head |-> NoHead,
                                home |-> None, disk |-> {}, s3 |-> @.s3]]
  /\ pub' = Forget(d) /\ net' = WithoutStale(net, d)
  /\ UNCHANGED <<s3, was>>

StartPod(d) ==
  /\ pod[d].up = "down" /\ pod' = [pod EXCEPT ![d].up = "starting"]
  /\ UNCHANGED <<s3, net, pub, left, was>>

LoseS3(d) ==
  /\ pod[d].s3 /\ left.outages > 0
  /\ left' = [left EXCEPT !.outages = @ - 1]
  /\ pod' = [pod EXCEPT ![d].s3 = FALSE]
  /\ UNCHANGED <<s3, net, pub, was>>

RegainS3(d) ==
  /\ OutagesEnd /\ ~pod[d].s3 /\ pod' = [pod EXCEPT ![d].s3 = TRUE]
  /\ UNCHANGED <<s3, net, pub, left, was>>

(* A request that is lost on its way.  Only liveness needs it.              *)
Lose(message) ==
  /\ message.type = "trial" /\ ~Lives(message.by) /\ net' = net \ {message}
  /\ UNCHANGED <<s3, pub, pod, left, was>>

-------------------------------------------------------------------------------
PublisherStep(p) ==
  \/ Start(p) \/ Plan(p) \/ Uploaded(p) \/ Bake(p) \/ Commit(p) \/ Check(p) \/ Finish(p) \/ Prune(p) \/ SendDelete(p) \/ Ended(p)
  \/ \E d \in Pods : Ask(p, d) \/ Confirm(p, d) \/ Acknowledge(p, d) \/ End(p, d)
GivesUp(p) == GiveUpUpload(p) \/ GiveUp(p) \/ GoBack(p) \/ GiveUpUnknown(p) \/ FinishPartly(p)
PodStep(d) == ReadHead(d) \/ Download(d) \/ Missing(d) \/ Load(d) \/ StartLoad(d) \/ EndLoad(d) \/ Unload(d)

Next ==
  \/ \E p \in Publishers : PublisherStep(p) \/ GivesUp(p) \/ Timeout(p) \/ Crash(p)
  \/ \E m \in net : ApplyPut(m) \/ ApplyHead(m) \/ ApplyDelete(m) \/ ReceiveTrial(m)
  \/ \E p \in Publishers, d \in Pods : ReceiveRenewal(p, d)
  \/ \E d \in Pods : PodStep(d) \/ StartPod(d) \/ Expire(d) \/ Restart(d) \/ Stop(d) \/ LoseS3(d) \/ RegainS3(d) \/ FallBack(d)

Spec == Init /\ [][Next]_vars

(* What is not a fault happens in the end.                                  *)
LiveSpec ==
  /\ Init /\ [][Next \/ \E m \in net : Lose(m)]_vars
  /\ \A p \in Publishers : WF_vars(PublisherStep(p)) /\ WF_vars(GivesUp(p)) /\ WF_vars(Timeout(p))
  /\ \A d \in Pods : /\ WF_vars(ReadHead(d)) /\ WF_vars(Download(d)) /\ WF_vars(Missing(d)) /\ WF_vars(Load(d)) /\ WF_vars(StartLoad(d)) /\ WF_vars(EndLoad(d)) /\ WF_vars(Unload(d))
                     /\ WF_vars(StartPod(d)) /\ WF_vars(RegainS3(d)) /\ WF_vars(Expire(d))

(* States that differ only in what nothing reads any more are one state.    *)
View ==
  LET dead(m) == m.type = "head" /\ On("Generation") /\ On("IfMatch") /\ m.expects # s3.head.generation
                   /\ pub[m.by].at # m.kind
      kept(p) == LET me == pub[p] IN
        IF Lives(p) \/ me.at = "ok" THEN me
        ELSE [me EXCEPT !.base = IF me.base = None THEN 0 ELSE me.base.generation, !.plan = None, !.upload = None,
                        !.asked = {}, !.served = {}, !.baked = FALSE, !.doomed = {}, !.why = IF @ = "busy" THEN @ ELSE None]
  IN <<s3, {m \in net : ~dead(m)}, [p \in Publishers |-> kept(p)], pod, left, was>>

-------------------------------------------------------------------------------
(* What holds in every state                                                *)

TypeOK ==
  /\ s3.head.release \in Releases
  /\ \A d \in Pods : pod[d].serves \in Releases \cup {None} /\ pod[d].trial \in Publishers \cup {None}

(* A pod that starts can download head.                                     *)
HeadIsComplete == Complete(s3.head.release)
(* What `releases' lists can be rolled back to.                             *)
RetainedIsComplete == \A r \in s3.head.retained : Complete(r)
(* In the releases that are retained a version number names one thing.      *)
NumbersAreStable ==
  \A r, t \in s3.head.retained : \A m \in Models :
    LET f == s3.manifests[r][m]
        g == s3.manifests[t][m]
    IN f.number = g.number => BytesOf(f.key) = BytesOf(g.key)
(* Exit 1: head never was and never will be at the release, ...             *)
FailedMeansNot == \A p \in Publishers : pub[p].at = "failed" => p \notin was.head
(* ... and no pod serves it or will serve it.                               *)
FailedMeansHome ==
  \A p \in Publishers : pub[p].at = "failed" => \A d \in Pods : pod[d].trial # p /\ pod[d].serves # p /\ pod[d].loading # p
(* Exit 0: head was at the release, ...                                     *)
OkMeansHead == \A p \in Publishers : pub[p].at = "ok" /\ Command[p] # "prune" => p \in was.head
(* ... and no pod that served it goes back: it serves this release, or one  *)
(* that is built on it.                                                     *)
NoStepBack ==
  \A p \in Publishers : pub[p].at = "ok" /\ Command[p] # "prune" /\ s3.head.release = ReleaseOf(p) =>
    \A d \in pub[p].served :
      \/ pod[d].serves \in {ReleaseOf(p), None}
      \/ pod[d].serves \in Publishers /\ pub[pod[d].serves].base.generation > pub[p].base.generation
(* Two publishers do not turn each other away.                              *)
OneOfTwoGoesOn == ~(\A p \in Publishers : pub[p].why = "busy" /\ pub[p].at \in {"ending", "failed"})
(* A number is in conflict only if a release that was in service has it.    *)
NumbersAreNotBurnt ==
  \A p \in Publishers : pub[p].why = "conflict" =>
    \E r \in {"r0", "r1"} \cup was.head : \E m \in Models : s3.manifests[r][m].number = Number[p]

(* What holds in every step                                                 *)

Sends(p) == pub[p].at = "trial" /\ pub'[p].at = "commit"
(* When the commit is sent, each pod that is up serves the release under a  *)
(* trial of this publisher, and at least one does.                          *)
CommitAfterTrials ==
  [][\A p \in Publishers : Sends(p) => \A d \in Up : Reports(d) = ReleaseOf(p) /\ pod[d].trial = p]_vars
(* ... for long enough, and so long no other pod was asked.                 *)
CommitAfterBake ==
  [][\A p \in Publishers : Sends(p) /\ Pods # {} => pub[p].baked]_vars
OthersAfterBake ==
  [][\A p \in Publishers : \A d \in pub'[p].asked \ pub[p].asked : pub[p].asked \subseteq {d} \/ pub[p].baked]_vars
CommitAfterATrial == [][\A p \in Publishers : Sends(p) => Up # {}]_vars
(* A release replaces the one that it was built on.                         *)
CommitOnBase ==
  [][\A p \in Publishers : p \notin was.head /\ p \in was'.head => s3.head.generation = pub[p].base.generation]_vars
(* No publisher takes over the trial of another.                           *)
TrialsAreNotTaken == [][\A d \in Pods : pod[d].trial # None => pod'[d].trial \in {pod[d].trial, None}]_vars

(* What holds in the end                                                    *)

PodsFollowHead ==
  <>[](\A d \in Pods : pod[d].s3 /\ <<s3.head.release, d>> \notin BadOn => pod[d].up = "up" /\ pod[d].serves = s3.head.release)
(* A pod that reaches S3 comes up.                                          *)
PodsStart == <>[](\A d \in Pods : pod[d].s3 => pod[d].up = "up")
(* No pod serves for ever what head never was at.                           *)
TrialsEnd == <>[](\A d \in Pods : pod[d].serves \in {None, "r0", "r1"} \cup {ReleaseOf(p) : p \in was.head})
(* A pod that restarts without S3 serves what it has.                       *)
PodsComeUp == <>[](\A d \in Pods : pod[d].home # None => pod[d].up = "up")

-------------------------------------------------------------------------------
(* What must be possible: each of these is violated.                        *)
NeverAllOk == \E p \in Publishers : pub[p].at # "ok"
NeverFenced == \A p \in Publishers : pub[p].why # "fenced"
(* For a release that loads on no pod: the first refusal ends the publish.  *)
OnlyTheCanaryIsAsked == \A p \in Publishers : \A d, e \in pub[p].asked : d = e
NeverPartial == \A p \in Publishers : pub[p].at # "partial"
NeverDeleted == First[Changed].key \in s3.objects
NeverShared ==
  ~\E r, t \in Publishers \cap s3.head.retained : r # t /\ s3.manifests[r][Changed].key = s3.manifests[t][Changed].key
NeverNew == \A p, q \in s3.objects : BytesOf(p) = BytesOf(q) => SweepOf(p) = SweepOf(q)
===============================================================================
