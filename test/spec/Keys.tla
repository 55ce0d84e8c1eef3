--------------------------------- MODULE Keys ---------------------------------
(***************************************************************************)
(* The two keys of a file: its place in the repository, and a key by       *)
(* content and time.  Publish.tla has trials, pods and conflicts; this     *)
(* module has one file of one version number, whose bytes may differ.      *)
(*                                                                         *)
(* A request stays in `net': it is applied at any later step, any number   *)
(* of times, or never, also after its sender has died, which is to take no *)
(* more steps.  Any response may be lost.                                  *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Publishers, Prunes,
  Bytes,       \* [Publishers -> STRING]: what each publishes; the orphan at the place has "x"
  MaxTime,     \* how often the clock of S3 advances
  Deletes,     \* how often a request that deletes an object may be applied
  MaySuspend,  \* versioning of the bucket may be suspended at any step
  Guards,
  None         \* a model value

On(g) == g \in Guards
Procs == Publishers \cup Prunes
Releases == {"r0"} \cup Publishers
Place == <<"place">>
Kept(bytes, swept) == IF On("TimeInKey") THEN <<"kept", bytes, swept>> ELSE <<"kept", bytes>>
Keys == {Place} \cup {Kept(b, t) : b \in {Bytes[p] : p \in Publishers} \cup {"x", "r"}, t \in 0..MaxTime}
Null == 0      \* the version id of objects that are written while versioning is suspended

VARIABLES
  now,       \* the clock of S3
  versions,  \* versions that exist: [key, id, bytes, at]
  current,   \* [Keys -> id, or None: no object, or a delete marker]
  head,      \* [generation, release, retained, swept]
  manifests, \* [Releases -> version or None]
  net,       \* requests under way
  st,        \* [Procs -> record]
  suspended
vars == <<now, versions, current, head, manifests, net, st, suspended>>

Orphan == [key |-> Place, id |-> 1, bytes |-> "x", at |-> 0]
Named0 == [key |-> Kept("r", 0), id |-> 2, bytes |-> "r", at |-> 0]

(* r0 is the current release; a refused release has left the orphan.        *)
Init ==
  /\ now = 0 /\ versions = {Orphan, Named0} /\ suspended = FALSE
  /\ current = [k \in Keys |-> CASE k = Place -> 1 [] k = Kept("r", 0) -> 2 [] OTHER -> None]
  /\ head = [generation |-> 1, release |-> "r0", retained |-> {"r0"}, swept |-> 0]
  /\ manifests = [r \in Releases |-> IF r = "r0" THEN Named0 ELSE None]
  /\ net = {}
  /\ st = [p \in Procs |-> [at |-> "start", base |-> None, key |-> None, file |-> None, doomed |-> {}]]

Found(key) == CHOOSE v \in versions : v.key = key /\ v.id = current[key]

Tick == now < MaxTime /\ now' = now + 1 /\ UNCHANGED <<versions, current, head, manifests, net, st, suspended>>
Suspend == MaySuspend /\ ~suspended /\ suspended' = TRUE /\ UNCHANGED <<now, versions, current, head, manifests, net, st>>

Start(p) ==
  /\ st[p].at = "start"
  /\ st' = [st EXCEPT ![p].base = head, ![p].at = IF p \in Prunes THEN "list" ELSE "plan"]
  /\ UNCHANGED <<now, versions, current, head, manifests, net, suspended>>

-------------------------------------------------------------------------------
(* A publisher names a file of a retained release, or uploads: to the place, *)
(* else to the key by content.                                              *)

Put(p, key) == [type |-> "put", by |-> p, key |-> key, bytes |-> Bytes[p]]
Send(p, key) ==
  /\ net' = net \cup {Put(p, key)}
  /\ st' = [st EXCEPT ![p].key = key, ![p].at = "upload"]

Plan(p) ==
  /\ st[p].at = "plan"
  /\ LET same == {f \in {manifests[r] : r \in st[p].base.retained} \ {None} : f.bytes = Bytes[p]} IN
     IF same # {}
     THEN st' = [st EXCEPT ![p].file = CHOOSE f \in same : TRUE, ![p].at = "commit"] /\ UNCHANGED net
     ELSE Send(p, Place)
  /\ UNCHANGED <<now, versions, current, head, manifests, suspended>>

NewId == CHOOSE i \in 1..(Cardinality(versions) + 1) : \A v \in versions : v.id # i
ApplyPut(m) ==
  /\ m.type = "put" /\ (current[m.key] = None \/ ~On("IfAbsent"))
  /\ LET id == IF suspended THEN Null ELSE NewId
         new == [key |-> m.key, id |-> id, bytes |-> m.bytes, at |-> now]
     IN /\ versions' = {v \in versions : ~(v.key = m.key /\ v.id = id)} \cup {new}
        /\ current' = [current EXCEPT ![m.key] = id]
  /\ UNCHANGED <<now, head, manifests, net, st, suspended>>

(* The response: of this publisher's object, or of the one that is there.   *)
Look(p) ==
  /\ st[p].at = "upload" /\ current[st[p].key] # None
  /\ LET key == st[p].key
         found == Found(key)
         same == On("Checksum") => found.bytes = Bytes[p]
         fresh == key # Place \/ found.at >= st[p].base.swept \/ ~On("Fresh")
     IN IF same /\ fresh
        THEN /\ st' = [st EXCEPT ![p].file = [found EXCEPT !.bytes = Bytes[p]],
                                 ![p].at = IF found.id = Null /\ On("VersionId") THEN "failed" ELSE "commit"]
             /\ UNCHANGED net
        ELSE IF key = Place THEN Send(p, Kept(Bytes[p], st[p].base.swept))
        ELSE st' = [st EXCEPT ![p].at = "failed"] /\ UNCHANGED net
  /\ UNCHANGED <<now, versions, current, head, manifests, suspended>>

SendHead(p, h) ==
  /\ net' = net \cup {[type |-> "head", by |-> p, expects |-> st[p].base.generation, head |-> h]}
  /\ st' = [st EXCEPT ![p].at = "wait"]

Commit(p) ==
  /\ st[p].at = "commit"
  /\ manifests' = [manifests EXCEPT ![p] = st[p].file]
  /\ SendHead(p, [st[p].base EXCEPT !.release = p, !.retained = @ \cup {p}])
  /\ UNCHANGED <<now, versions, current, head, suspended>>

ApplyHead(m) ==
  /\ m.type = "head"
  /\ LET done == m.expects = head.generation \/ ~On("IfMatch")
         answer == IF ~done THEN "failed" ELSE IF m.by \in Prunes THEN "delete" ELSE "ok"
     IN /\ head' = IF done THEN [m.head EXCEPT !.generation = head.generation + 1] ELSE head
        /\ st' \in {st} \cup (IF st[m.by].at = "wait" THEN {[st EXCEPT ![m.by].at = answer]} ELSE {})
  /\ UNCHANGED <<now, versions, current, manifests, net, suspended>>

(* After the commit, the view copies a file to its place, if that is free.  *)
View(p) ==
  /\ st[p].at = "ok" /\ p \in Publishers /\ manifests[p].key # Place /\ current[Place] = None
  /\ net' = net \cup {Put(p, Place)} /\ st' = [st EXCEPT ![p].at = "viewed"]
  /\ UNCHANGED <<now, versions, current, head, manifests, suspended>>

-------------------------------------------------------------------------------
(* A prune retains the current release.  head.json first says which objects *)
(* may be deleted: those that are older than a time and that no retained    *)
(* release names.                                                           *)

List(p) ==
  /\ st[p].at = "list"
  /\ \E swept \in st[p].base.swept..now :
     LET base == st[p].base
         old == {k \in Keys : current[k] # None /\ Found(k).at < swept} \ {manifests[base.release].key}
         doomed == {[key |-> k, bytes |-> Found(k).bytes] : k \in old}
         begun == [st EXCEPT ![p].doomed = doomed, ![p].at = IF On("PruneCommits") THEN "wait" ELSE "delete"]
         next == [base EXCEPT !.retained = {base.release}, !.swept = swept]
     IN /\ doomed # {} /\ st' = begun
        /\ net' = IF On("PruneCommits")
                  THEN net \cup {[type |-> "head", by |-> p, expects |-> base.generation, head |-> next]}
                  ELSE net
  /\ UNCHANGED <<now, versions, current, head, manifests, suspended>>

SendDelete(p) ==
  /\ st[p].at = "delete"
  /\ \E d \in st[p].doomed :
       /\ st' = [st EXCEPT ![p].doomed = @ \ {d}]
       /\ net' = net \cup {[type |-> "delete", by |-> p, key |-> d.key, bytes |-> d.bytes, copies |-> Deletes]}
  /\ UNCHANGED <<now, versions, current, head, manifests, suspended>>

(* The request names the ETag, which is the same for the same bytes.  With  *)
(* versioning, only the current version is hidden.                          *)
ApplyDelete(m) ==
  /\ m.type = "delete" /\ current[m.key] # None /\ (On("ETag") => Found(m.key).bytes = m.bytes)
  /\ net' = (net \ {m}) \cup (IF m.copies = 1 THEN {} ELSE {[m EXCEPT !.copies = @ - 1]})
  /\ versions' = {v \in versions : ~(v.key = m.key /\ v.id = Null /\ suspended)}
  /\ current' = [current EXCEPT ![m.key] = None]
  /\ UNCHANGED <<now, head, manifests, st, suspended>>

Next ==
  \/ Tick \/ Suspend
  \/ \E p \in Procs : Start(p)
  \/ \E p \in Publishers : Plan(p) \/ Look(p) \/ Commit(p) \/ View(p)
  \/ \E p \in Prunes : List(p) \/ SendDelete(p)
  \/ \E m \in net : ApplyPut(m) \/ ApplyHead(m) \/ ApplyDelete(m)
Spec == Init /\ [][Next]_vars

-------------------------------------------------------------------------------
(* An agent finds every file of a retained release by its version id.       *)
Readable == \A r \in head.retained : manifests[r] # None /\ manifests[r] \in versions
(* ... and each is the object at its key, so that no lifecycle rule for old *)
(* versions deletes it, and a plain server finds it at its place.           *)
Visible == \A r \in head.retained : current[manifests[r].key] = manifests[r].id

(* What must be possible: each of these is violated.                        *)
NeverAtPlace == \A r \in Publishers \cap head.retained : manifests[r].key # Place
NeverKept == \A r \in Publishers \cap head.retained : manifests[r].key = Place
NeverDeleted == current[Place] # None
NeverBothOk == \E p \in Procs : st[p].at \notin {"ok", "delete"}
===============================================================================
