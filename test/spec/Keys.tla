--------------------------------- MODULE Keys ---------------------------------
(***************************************************************************)
(* The key of a file: its content, and the number of prunes before it was  *)
(* planned.  Publish.tla has trials, pods and conflicts; this module has   *)
(* releases of one file, in a bucket without versions.                     *)
(*                                                                         *)
(* A request stays in `net': it is applied at any later step, as often as  *)
(* Copies says, or never, also after its sender has died, which is to take *)
(* no more steps.  Any response may be lost.                               *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Publishers, Prunes,
  Bytes,   \* [Publishers -> STRING]: what each publishes
  Copies,  \* how often a request may be applied
  Guards,
  None     \* a model value

On(g) == g \in Guards
Procs == Publishers \cup Prunes
Releases == {"r0", "r1"} \cup Publishers
Key(bytes, sweep) == IF On("SweepInKey") THEN <<bytes, sweep>> ELSE <<bytes, 0>>

VARIABLES
  there,     \* keys of the objects that exist
  head,      \* [generation, release, retained, sweep]
  manifests, \* [Releases -> key or None]
  net,       \* requests under way
  st         \* [Procs -> record]
vars == <<there, head, manifests, net, st>>

(* r1 is the current release, and r0 the one before; a refused release has  *)
(* left the bytes "x".                                                      *)
Init ==
  /\ there = {<<"x", 0>>, <<"y", 0>>, <<"z", 0>>}
  /\ head = [generation |-> 1, release |-> "r1", retained |-> {"r0", "r1"}, sweep |-> 0]
  /\ manifests = [r \in Releases |-> CASE r = "r0" -> <<"y", 0>> [] r = "r1" -> <<"z", 0>> [] OTHER -> None]
  /\ net = {}
  /\ st = [p \in Procs |-> [at |-> "start", base |-> None, key |-> None, doomed |-> {}]]

Send(m) == net' = net \cup {m @@ [copies |-> Copies]}
Less(m) == (net \ {m}) \cup (IF m.copies = 1 THEN {} ELSE {[m EXCEPT !.copies = @ - 1]})

Start(p) ==
  /\ st[p].at = "start"
  /\ st' = [st EXCEPT ![p].base = head, ![p].at = IF p \in Prunes THEN "list" ELSE "plan"]
  /\ UNCHANGED <<there, head, manifests, net>>

-------------------------------------------------------------------------------
(* A publisher names a file of a retained release, or uploads.              *)

Plan(p) ==
  /\ st[p].at = "plan"
  /\ LET base == st[p].base
         known == {manifests[r] : r \in IF On("NameRetained") THEN base.retained ELSE Releases} \ {None}
         same == {k \in known : k[1] = Bytes[p]}
         new == Key(Bytes[p], base.sweep)
     IN IF same # {}
        THEN st' = [st EXCEPT ![p].key = CHOOSE k \in same : TRUE, ![p].at = "commit"] /\ UNCHANGED net
        ELSE st' = [st EXCEPT ![p].key = new, ![p].at = "upload"] /\ Send([type |-> "put", by |-> p, key |-> new])
  /\ UNCHANGED <<there, head, manifests>>

ApplyPut(m) ==
  /\ m.type = "put" /\ there' = there \cup {m.key} /\ net' = Less(m)
  /\ UNCHANGED <<head, manifests, st>>

(* The object is there: of this publisher, or of another one.               *)
Uploaded(p) ==
  /\ st[p].at = "upload" /\ st[p].key \in there
  /\ st' = [st EXCEPT ![p].at = "commit"]
  /\ UNCHANGED <<there, head, manifests, net>>

SendHead(p, next) ==
  /\ Send([type |-> "head", by |-> p, expects |-> st[p].base.generation, head |-> next])

Commit(p) ==
  /\ st[p].at = "commit"
  /\ manifests' = [manifests EXCEPT ![p] = st[p].key]
  /\ SendHead(p, [st[p].base EXCEPT !.release = p, !.retained = @ \cup {p}])
  /\ st' = [st EXCEPT ![p].at = "wait"]
  /\ UNCHANGED <<there, head>>

ApplyHead(m) ==
  /\ m.type = "head" /\ net' = Less(m)
  /\ LET done == m.expects = head.generation \/ ~On("IfMatch")
         answer == IF ~done THEN "failed" ELSE IF m.by \in Prunes THEN "delete" ELSE "ok"
     IN /\ head' = IF done THEN [m.head EXCEPT !.generation = head.generation + 1] ELSE head
        /\ st' \in {st} \cup (IF st[m.by].at = "wait" THEN {[st EXCEPT ![m.by].at = answer]} ELSE {})
  /\ UNCHANGED <<there, manifests>>

-------------------------------------------------------------------------------
(* A prune retains the current release, and deletes what it does not name,  *)
(* but nothing of publishers that plan after it.                            *)

List(p) ==
  /\ st[p].at = "list"
  /\ LET base == st[p].base
         old == {k \in there : k[2] <= base.sweep}
         next == [base EXCEPT !.retained = {base.release}, !.sweep = @ + 1]
     IN /\ st' = [st EXCEPT ![p].doomed = old \ {manifests[base.release]},
                            ![p].at = IF On("PruneCommits") THEN "wait" ELSE "delete"]
        /\ IF On("PruneCommits") THEN SendHead(p, next) ELSE UNCHANGED net
  /\ UNCHANGED <<there, head, manifests>>

SendDelete(p) ==
  /\ st[p].at = "delete"
  /\ \E k \in st[p].doomed :
       /\ st' = [st EXCEPT ![p].doomed = @ \ {k}]
       /\ Send([type |-> "delete", by |-> p, key |-> k])
  /\ UNCHANGED <<there, head, manifests>>

ApplyDelete(m) ==
  /\ m.type = "delete" /\ there' = there \ {m.key} /\ net' = Less(m)
  /\ UNCHANGED <<head, manifests, st>>

Next ==
  \/ \E p \in Procs : Start(p)
  \/ \E p \in Publishers : Plan(p) \/ Uploaded(p) \/ Commit(p)
  \/ \E p \in Prunes : List(p) \/ SendDelete(p)
  \/ \E m \in net : ApplyPut(m) \/ ApplyHead(m) \/ ApplyDelete(m)
Spec == Init /\ [][Next]_vars

-------------------------------------------------------------------------------
(* Every release that is served or may be served again has its file.        *)
Complete == \A r \in head.retained : manifests[r] \in there

(* What must be possible: each of these is violated.                        *)
NeverDeleted == <<"x", 0>> \in there
NeverShared == ~(\E p, q \in Publishers : p # q /\ {p, q} \subseteq head.retained /\ manifests[p] = manifests[q])
NeverNew == \A k \in there : k[2] = 0
NeverBothOk == \E p \in Procs : st[p].at \notin {"ok", "delete"}
===============================================================================
