-------------------------------- MODULE Lease ---------------------------------
(***************************************************************************)
(* The deadlines of a commit: a publisher renews its trial on a pod, checks *)
(* the lease, and sends the request that replaces head.json.               *)
(*                                                                         *)
(* Time is counted in steps of 10 s.  The publisher may pause at any step, *)
(* and each request and response may take any time.                        *)
(***************************************************************************)
EXTENDS Naturals, TLC

CONSTANTS
  Ttl,       \* how long a renewal lasts
  Margin,    \* what a lease must have left when the publisher checks it
  Deadline,  \* how long the publisher waits for the commit, from the check on
  Drift,     \* how much earlier the clock of the agent ends the trial
  Horizon,   \* how far the clock runs
  Guards

On(g) == g \in Guards
Max(a, b) == IF a > b THEN a ELSE b
Never == Horizon + Ttl + 1

VARIABLES
  now,
  renewals,  \* times at which renewals were sent that are under way
  answers,   \* responses under way: [sent, received]
  lease,     \* until when the publisher relies on the trial
  until,     \* until when the agent keeps it
  checked,   \* when the publisher checked the lease; Never: not yet
  at,        \* "trial", "checked", "sent", "done" or "late"
  applied,   \* when S3 replaced head.json; Never: not yet
  served     \* whether the trial lasted then
vars == <<now, renewals, answers, lease, until, checked, at, applied, served>>

Init ==
  /\ now = 0 /\ renewals = {} /\ answers = {} /\ lease = Ttl - Drift /\ until = Ttl
  /\ checked = Never /\ at = "trial" /\ applied = Never /\ served = TRUE

Tick ==
  /\ now < Horizon /\ now' = now + 1
  /\ UNCHANGED <<renewals, answers, lease, until, checked, at, applied, served>>

Renew ==
  /\ at = "trial" /\ renewals = {} /\ answers = {} /\ renewals' = {now}
  /\ UNCHANGED <<now, answers, lease, until, checked, at, applied, served>>

LoseRenewal ==
  /\ renewals' = {} /\ answers' = {}
  /\ UNCHANGED <<now, lease, until, checked, at, applied, served>>

(* The agent lengthens a trial that has not expired.                        *)
Receive(sent) ==
  /\ sent \in renewals /\ renewals' = renewals \ {sent}
  /\ IF now < until
     THEN /\ \E early \in 0..Drift : until' = Max(until, now + Ttl - early)
          /\ answers' = answers \cup {[sent |-> sent, received |-> now]}
     ELSE UNCHANGED <<until, answers>>
  /\ UNCHANGED <<now, lease, checked, at, applied, served>>

Learn(answer) ==
  /\ answer \in answers /\ answers' = answers \ {answer} /\ at = "trial"
  /\ LET from == IF On("CountFromRequest") THEN answer.sent ELSE now
         end == from + Ttl - Drift
     IN lease' = Max(lease, end)
  /\ UNCHANGED <<now, renewals, until, checked, at, applied, served>>

CheckLease ==
  /\ at = "trial" /\ (On("Margin") => lease >= now + Margin) /\ lease > now
  /\ checked' = now /\ at' = "checked"
  /\ UNCHANGED <<now, renewals, answers, lease, until, applied, served>>

(* A request whose time is over is not sent.                                *)
Send ==
  /\ at = "checked"
  /\ IF On("DeadlineFromCheck") /\ now > checked + Deadline THEN at' = "late" /\ UNCHANGED checked
     ELSE at' = "sent" /\ checked' = IF On("DeadlineFromCheck") THEN checked ELSE now
  /\ UNCHANGED <<now, renewals, answers, lease, until, applied, served>>

Apply ==
  /\ at \in {"sent", "late"} /\ checked # Never /\ applied = Never
  /\ at = "sent" \/ On("DeadlineFromCheck") = FALSE
  /\ applied' = now /\ served' = (now < until)
  /\ UNCHANGED <<now, renewals, answers, lease, until, checked, at>>

(* The response arrives in time: the publisher reports success.             *)
Finish ==
  /\ at = "sent" /\ applied # Never /\ now <= checked + Deadline /\ at' = "done"
  /\ UNCHANGED <<now, renewals, answers, lease, until, checked, applied, served>>

Next ==
  \/ Tick \/ Renew \/ LoseRenewal \/ CheckLease \/ Send \/ Apply \/ Finish
  \/ \E sent \in renewals : Receive(sent)
  \/ \E answer \in answers : Learn(answer)
Spec == Init /\ [][Next]_vars

-------------------------------------------------------------------------------
(* A commit that is answered in time replaced head while the pod served the *)
(* release.                                                                 *)
CommittedWhileServed == at = "done" => served
(* What must be possible.                                                   *)
NeverDone == at # "done"
===============================================================================
