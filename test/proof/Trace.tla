-------------------------------- MODULE Trace --------------------------------
(***************************************************************************)
(* Whether recorded runs of the code are runs of Publish.tla.              *)
(*                                                                         *)
(* A trace is a sequence of what was seen from outside: requests of        *)
(* publishers, contents of head.json, what agents report, and exit codes.  *)
(* TLC follows all traces at the same time.  For each it searches steps of *)
(* Publish.tla that explain what was seen, and prints how many of its      *)
(* elements are explained.                                                 *)
(***************************************************************************)
EXTENDS Publish, Sequences

CONSTANT Traces   \* sequence of sequences of <<kind, program, ...>>

VARIABLES
  number,   \* of the trace
  trace,    \* the trace itself: TLC would evaluate all of Traces in each step
  at        \* index in it of what is seen next
all == <<number, trace, at, vars>>

Step == trace[at]
Kind == Step[1]
By == Step[2]
Known(name) == IF name = "none" THEN None ELSE name

TraceInit == Init /\ number \in DOMAIN Traces /\ trace = Traces[number] /\ at = 1

-------------------------------------------------------------------------------
(* Steps that are not seen.  Those that only add to what a publisher knows  *)
(* are taken at once, ...                                                   *)
Learn == \E p \in Publishers : Bake(p) \/ \E d \in Pods : Confirm(p, d) \/ Acknowledge(p, d)

(* A pod refuses a trial.                                                   *)
Refusal(p) == \E m \in net : m.type = "trial" /\ m.by = p /\ ReceiveTrial(m) /\ UNCHANGED pod

(* A pod that starts refuses every trial until its Triton has answered.     *)
Starting(d) == pod[d].up = "starting" /\ \E p \in Publishers : Refusal(p) /\ net' = {m \in net : ~(m.type = "trial" /\ m.by = p /\ m.pod = d)}

(* ... and the others only if what is seen next may need them.             *)
NotSeen ==
  \/ Kind = "head" /\ Step[3] = "fence" /\ (Timeout(By) \/ Check(By))
  \/ Kind = "exit" /\ (Timeout(By) \/ Check(By) \/ GivesUp(By) \/ Ended(By) \/ Finish(By) \/ Refusal(By))
  \/ Kind = "trial" /\ pod[By].up = "starting" /\ (Download(By) \/ StartLoad(By))  \* it began to load head before
  \/ Kind = "state" /\ LET me == pod[By]
                          reads == me.head.generation < Step[5]
                          loads == ~reads /\ Step[3] \notin {"none", Reports(By)}
                          begins == Step[3] = "none" /\ me.serves # None
                      IN \/ loads /\ Starting(By)
                         \/ reads /\ ReadHead(By) /\ pod'[By].head.generation <= Step[5]
                         \/ loads /\ (EndLoad(By) \/ FallBack(By))
                         \/ (loads \/ begins) /\ (Download(By) \/ StartLoad(By) \/ Unload(By))

(* A request to a pod is lost, or refused.                                  *)
Drop(d) == net' = WithoutStale(net, d) /\ UNCHANGED <<s3, pub, pod, left, was>>

ExitOf(state) ==
  CASE state = "ok" -> 0 [] state = "failed" -> 1 [] state \in {"unknown", "partial"} -> 3 [] state = "dead" -> 9 [] OTHER -> 2

Explained ==
  CASE Kind = "start" -> Start(By)
    [] Kind = "manifest" -> Plan(By) /\ s3' # s3
    [] Kind = "ask" -> Ask(By, Step[3]) \/ ((Pending(By, Step[3]) \/ pod[Step[3]].trial = By) /\ UNCHANGED vars)
    [] Kind = "commit" -> Commit(By)
    [] Kind = "head" -> \E m \in net : /\ m.type = "head" /\ m.by = By /\ m.kind = Step[3]
                                       /\ ApplyHead(m) /\ s3' # s3
                                       /\ pub' = pub => pub[By].at # m.kind
    [] Kind = "exit" /\ Step[3] = 9 -> Crash(By)
    [] Kind = "exit" -> ExitOf(pub[By].at) = Step[3] /\ UNCHANGED vars
    [] Kind = "trial" -> \E m \in net : m.type = "trial" /\ m.pod = By /\ m.by = Step[3] /\ ReceiveTrial(m) /\ pod' # pod
    [] Kind = "trial end" -> Expire(By)
    [] Kind = "tag" -> Drop(By)
    [] Kind = "restart" -> Restart(By) \/ (pod[By].up = "starting" /\ Drop(By))
    [] Kind = "stop" -> Stop(By)
    [] Kind = "join" -> StartPod(By)
    [] Kind = "state" -> LET me == pod[By] IN
         /\ Step[3] = "none" \/ Reports(By) = Step[3]
         /\ me.home = Known(Step[4]) /\ me.head.generation = Step[5] /\ me.trial = Known(Step[6])
         /\ UNCHANGED vars
    [] Kind = "settled" -> (\A d \in Pods : pod[d].up # "down" => Reports(d) = s3.head.release /\ pod[d].trial = None) /\ UNCHANGED vars
    [] OTHER -> FALSE

TraceNext ==
  /\ at <= Len(trace)
  /\ IF ENABLED Learn THEN Learn /\ UNCHANGED at
     ELSE \/ NotSeen /\ UNCHANGED at
          \/ Explained /\ at' = at + 1 /\ PrintT(<<"explained", number, at>>)
  /\ UNCHANGED <<number, trace>>

(* How many faults are left does not matter.                                *)
TraceView == <<number, at, s3, net, pub, pod, was>>

TraceSpec == TraceInit /\ [][TraceNext]_all
===============================================================================
