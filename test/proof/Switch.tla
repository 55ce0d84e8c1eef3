-------------------------------- MODULE Switch --------------------------------
(***************************************************************************)
(* Inside one pod: the files that the agent writes, and what Triton makes  *)
(* of them when it is told to load.                                        *)
(*                                                                         *)
(* Triton's part follows its core repository at r24.10 (2.51); r26.05 has  *)
(* the same rules:                                                         *)
(*  - filesystem/implementations/local.h: the time of a file is the later  *)
(*    one of its modification and its change time.  No program can set the *)
(*    change time; link(), unlink() and rename() renew it.                 *)
(*  - model_repository_manager.cc: a load of a known model whose newest    *)
(*    time did not grow does nothing, and succeeds.  After a load that     *)
(*    failed the old times are put back.                                   *)
(*  - model_lifecycle.cc: a loaded version is kept if neither its folder   *)
(*    nor the files beside the versions became newer than the newest of    *)
(*    both was.                                                            *)
(* test/real/triton-reload.test.ts shows these rules on a server.   *)
(*                                                                         *)
(* The agent never changes a folder of its store.  It points symbolic      *)
(* links to them, and may set the modification time of a folder.           *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Steps,      \* models that an ensemble uses, in the order of loads
  Others,     \* ensembles and models of their own, in the order of loads
  Contents,   \* [release -> [model -> [Versions -> content or "-"]]]
  Labels,     \* [release -> [model -> content of the label file, or "-"]]
  Faces,      \* [release -> [model -> interface in its configuration]]
  Pins,       \* [release -> [step -> version that the ensemble uses]]; empty without an ensemble
  Ensemble,   \* its name in Others
  Bad,        \* contents that do not load
  Wrong,      \* contents that load, and then answer golden requests wrongly
  Outside,    \* another replica gets requests, so this one leaves the Service for a trial
  Switches,   \* how many releases are asked for
  MaxCrashes, \* how often the agent dies
  MaxRestarts, \* how often Triton dies
  ClockGoesBack, \* the wall clock goes back once
  Guards

On(g) == g \in Guards
Versions == {1, 2}
Range(s) == {s[i] : i \in 1..Len(s)}
Models == Range(Steps) \cup Range(Others)
Without(s, i) == SubSeq(s, 1, i - 1) \o SubSeq(s, i + 1, Len(s))
Max(S) == CHOOSE x \in S : \A y \in S : y <= x

(* What is asked of a model: content of each version, and of the labels.    *)
Want(r, m) == [content |-> Contents[r][m], label |-> Labels[r][m], face |-> Faces[r][m]]
(* A model without versions is not in the release.                          *)
In(r, m) == \E v \in Versions : Contents[r][m][v] # "-"
(* A step that serves the versions of both releases.                        *)
Both(old, new, m) ==
  [content |-> [v \in Versions |-> IF Contents[new][m][v] # "-" THEN Contents[new][m][v] ELSE Contents[old][m][v]],
   label |-> Labels[new][m], face |-> Faces[new][m]]
Served(want) == {v \in Versions : want.content[v] # "-"}
(* A version number stands for two contents: requests could mix them.       *)
Clash(old, new) ==
  \E i \in 1..Len(Steps) : \E v \in Versions :
    LET a == Contents[old][Steps[i]][v]
        b == Contents[new][Steps[i]][v]
    IN a # "-" /\ b # "-" /\ a # b

(* All versions of a step have the configuration of the new release, so an   *)
(* ensemble of the old one cannot use them if their interface differs.      *)
Differs(old, new) == \E i \in 1..Len(Steps) : Faces[old][Steps[i]] # Faces[new][Steps[i]]
(* The pod must not get requests while it switches.                         *)
Closed(old, new) == (On("CloseOnClash") /\ Clash(old, new)) \/ (On("CloseOnInterface") /\ Differs(old, new))

VARIABLES
  now, back,
  mode,    \* "one": loads follow each other; "all": several at a time; "wait": no other load until all have ended
  flight,  \* models whose load the agent waits for
  orphans, \* models whose load an agent began that died
  file,    \* [Models -> [content, time, label, labelTime, serves, configTime, face]]: the model repository
  triton,  \* [Models -> [known, time, labelTime, configTime, content, label, face]]: what Triton has loaded
  note,    \* [Models -> [sure, before, content, time, label, labelTime]]: the agent's note of the last load
  goal, home, tasks,
  at,      \* "files": it switches; "tried": a trial serves `goal'; "idle": it serves `home'
  ready,   \* it gets requests
  asked, crashes, restarts,
  needless \* history: a version was loaded again without need
vars == <<now, back, mode, flight, orphans, file, triton, note, goal, home, tasks, at, ready, asked, crashes, restarts, needless>>

Releases == DOMAIN Contents
Tasks(models, r) ==
  LET present == SelectSeq(models, LAMBDA m : In(r, m)) IN [i \in 1..Len(present) |-> <<present[i], Want(r, present[i])>>]
(* Steps serve old and new versions, then the ensemble is switched, then    *)
(* the steps give up the old versions.                                      *)
Forward(old, new) ==
  (IF On("StepsServeBoth") THEN [i \in 1..Len(Steps) |-> <<Steps[i], Both(old, new, Steps[i])>>] ELSE <<>>)
  \o (IF On("EnsembleBeforeDrop") THEN Tasks(Others, new) \o Tasks(Steps, new) ELSE Tasks(Steps, new) \o Tasks(Others, new))
(* The ensemble was not switched, or its steps still serve both.            *)
Backward(r) == Tasks(Others, r) \o Tasks(Steps, r)
(* If no model is known to be served, no one uses one, so several are       *)
(* loaded at a time, ensembles last.                                        *)
Mode(notes) == IF On("OneAtATime") /\ \E m \in Models : notes[m].sure THEN "one" ELSE "all"

First == "a"
Time0 == 1
Init ==
  /\ now = 10 /\ back = FALSE
  /\ file = [m \in Models |->
       LET w == Want(First, m) IN
       [content |-> w.content, time |-> [v \in Versions |-> IF w.content[v] = "-" THEN 0 ELSE Time0],
        label |-> w.label, labelTime |-> IF w.label = "-" THEN 0 ELSE Time0, serves |-> Served(w), configTime |-> Time0, face |-> w.face]]
  /\ triton = [m \in Models |->
       [known |-> TRUE, time |-> file[m].time, labelTime |-> file[m].labelTime, configTime |-> Time0,
        content |-> file[m].content, label |-> [v \in Versions |-> IF file[m].content[v] = "-" THEN "-" ELSE file[m].label],
        face |-> file[m].face]]
  /\ note = [m \in Models |->
       [sure |-> TRUE, before |-> TRUE, content |-> file[m].content, time |-> file[m].time, label |-> file[m].label, labelTime |-> file[m].labelTime]]
  /\ goal = First /\ home = First /\ tasks = <<>> /\ at = "idle" /\ ready = TRUE
  /\ mode = "one" /\ flight = {} /\ orphans = {}
  /\ asked = 0 /\ crashes = 0 /\ restarts = 0 /\ needless = FALSE

Tick ==
  \/ now' = now + 1 /\ UNCHANGED back
  \/ ClockGoesBack /\ ~back /\ now > 6 /\ now' = now - 6 /\ back' = TRUE

Newest(f) == Max({f.time[v] : v \in Versions} \cup {f.labelTime, f.configTime})
(* A time that Triton takes for a change.                                   *)
Later(f) == IF On("LaterThanAll") THEN Max({now, Newest(f)}) + 1 ELSE now + 1

Nothing == [v \in Versions |-> "-"]
Zero == [v \in Versions |-> 0]
Unloaded == [known |-> FALSE, time |-> Zero, labelTime |-> 0, configTime |-> 0, content |-> Nothing, label |-> Nothing, face |-> "-"]

Ask(r) ==
  /\ at = "idle" /\ asked < Switches /\ r # home
  /\ goal' = r /\ tasks' = Forward(home, r) /\ at' = "files" /\ asked' = asked + 1
  /\ mode' = Mode(note)
  /\ ready' = ~(Closed(home, r) \/ (On("LeaveFirst") /\ Outside))
  /\ UNCHANGED <<now, back, flight, orphans, file, triton, note, home, crashes, restarts, needless>>

(* The tasks that may begin now.                                            *)
Free ==
  {i \in 1..Len(tasks) :
    IF mode = "all"
    THEN tasks[i][1] \notin flight /\ (tasks[i][1] = Ensemble => Len(tasks) = 1)
    ELSE i = 1 /\ flight = {}}

(* The time of a content: what Triton has loaded has the time that Triton   *)
(* knows, everything else gets a later one.                                 *)
Place(f, new, sure, noted, notedTime) ==
  IF On("PutAside") /\ new = noted /\ (On("OnlyIfSure") => sure) THEN notedTime
  ELSE Later(f)

(* Links and labels of one model, then config.pbtxt by rename, last.  The   *)
(* agent notes that it is not sure before it asks Triton to load.           *)
Write ==
  /\ at = "files"
  /\ \E i \in Free :
     LET M == tasks[i][1]
         W == tasks[i][2]
         f == file[M]
         n == note[M]
         \* Triton does not notice that a file is gone
         gone == On("TouchOnRemoval") /\ f.label # "-" /\ W.label = "-" /\ ~(n.sure /\ n.label = "-")
         time == [v \in Versions |->
           IF v \notin Served(W) THEN f.time[v]
           ELSE IF gone THEN Later(f)
           ELSE Place(f, W.content[v], n.sure, n.content[v], n.time[v])]
         content == [v \in Versions |-> IF v \in Served(W) THEN W.content[v] ELSE f.content[v]]
         labelTime == IF W.label = "-" THEN 0 ELSE Place(f, W.label, n.sure, n.label, n.labelTime)
         g == [f EXCEPT !.time = time, !.content = content, !.label = W.label, !.labelTime = labelTime, !.face = W.face]
         same == g = f /\ f.serves = Served(W)     \* as noted, and the agent is sure
     IN \/ /\ same /\ tasks' = Without(tasks, i) /\ UNCHANGED <<file, note, flight, now, back>>
        \/ /\ ~same
           /\ file' = [file EXCEPT ![M] = [g EXCEPT !.serves = Served(W), !.configTime = Later(g)]]
           /\ note' = [note EXCEPT ![M].sure = ~On("MarkUnsure"), ![M].before = n.sure]
           /\ flight' = flight \cup {M} /\ UNCHANGED tasks /\ Tick
  /\ UNCHANGED <<mode, orphans, triton, goal, home, at, ready, asked, crashes, restarts, needless>>

(* The agent dies.  Triton continues the loads that it had begun.           *)
Dies ==
  /\ crashes < MaxCrashes /\ crashes' = crashes + 1
  /\ orphans' = orphans \cup flight /\ flight' = {}
  /\ goal' \in {goal, home}
  /\ tasks' = Forward(home, goal') /\ mode' = Mode(note)
  /\ ready' = FALSE
  /\ UNCHANGED <<triton, note, home, at, asked, restarts, needless>>

DiesDuringLoad == at = "files" /\ flight # {} /\ Dies /\ UNCHANGED <<now, back, file>>

(* The agent dies between two files of a model.                             *)
DiesDuringWrite ==
  /\ at = "files"
  /\ \E i \in Free :
     LET M == tasks[i][1]
         W == tasks[i][2]
         f == file[M]
         n == note[M] IN
     \E v \in Served(W) :
       /\ f.content[v] # W.content[v]
       /\ file' = [file EXCEPT ![M].content[v] = W.content[v],
                     ![M].time[v] = Place(f, W.content[v], n.sure, n.content[v], n.time[v])]
  /\ Dies /\ Tick

Newest2(t) == Max({t.time[v] : v \in Versions} \cup {t.labelTime, t.configTime})
IsNewer(f, t, v) == Max({f.time[v], f.labelTime}) > Max({t.time[v], t.labelTime})

(* The result of a load of a model.                                         *)
Load(M) ==
  LET f == file[M]
      t == triton[M]
      nothing == t.known /\ Newest(f) <= Newest2(t)
      kept == {v \in f.serves : t.content[v] # "-" /\ ~IsNewer(f, t, v)}
      fails == ~nothing /\ \E v \in f.serves \ kept : f.content[v] \in Bad
      after == [known |-> TRUE, time |-> f.time, labelTime |-> f.labelTime, configTime |-> f.configTime,
                content |-> [v \in Versions |-> IF v \notin f.serves THEN "-" ELSE IF v \in kept THEN t.content[v] ELSE f.content[v]],
                label |-> [v \in Versions |-> IF v \notin f.serves THEN "-" ELSE IF v \in kept THEN t.label[v] ELSE f.label],
                face |-> f.face]
  IN [fails |-> fails,
      triton |-> IF nothing THEN t ELSE IF fails THEN [t EXCEPT !.known = TRUE] ELSE after,
      again |-> ~nothing /\ ~fails /\ \E v \in f.serves \ kept : t.content[v] = f.content[v] /\ t.label[v] = f.label]

(* Triton loads one model at a time of those with the same name.            *)
OrphanLoads ==
  \E M \in orphans :
    /\ triton' = [triton EXCEPT ![M] = Load(M).triton]
    /\ orphans' = orphans \ {M}
    /\ UNCHANGED <<now, back, mode, flight, file, note, goal, home, tasks, at, ready, asked, crashes, restarts, needless>>

(* A load, and its response.                                                *)
LoadModel ==
  \E M \in flight \ orphans :
    LET f == file[M]
        load == Load(M) IN
    /\ triton' = [triton EXCEPT ![M] = load.triton]
    /\ flight' = flight \ {M}
    /\ needless' = (needless \/ (crashes = 0 /\ restarts = 0 /\ load.again))
    /\ note' = [note EXCEPT ![M] =
         IF load.fails THEN [@ EXCEPT !.sure = @ \/ note[M].before]  \* Triton has what it had
         ELSE [sure |-> TRUE, before |-> TRUE, content |-> [v \in Versions |-> IF v \in f.serves THEN f.content[v] ELSE "-"],
               time |-> f.time, label |-> f.label, labelTime |-> f.labelTime]]
    /\ IF load.fails /\ mode = "one" THEN goal' = home /\ tasks' = Backward(home)
       ELSE UNCHANGED goal /\ tasks' = IF load.fails THEN tasks ELSE Without(tasks, CHOOSE i \in 1..Len(tasks) : tasks[i][1] = M)
    \* Models that failed beside others are loaded again, one at a time.
    /\ mode' = IF load.fails /\ mode = "one" THEN Mode(note')
               ELSE IF ~load.fails /\ mode # "wait" THEN mode
               ELSE IF flight' # {} THEN "wait" ELSE "one"
    /\ UNCHANGED <<now, back, orphans, file, home, at, ready, asked, crashes, restarts>>

Return ==
  /\ goal' = home /\ tasks' = Forward(goal, home) /\ at' = "files" /\ mode' = Mode(note)
  /\ ready' = (ready /\ ~Closed(goal, home))

(* All is loaded.  A trial asks the models, and is refused or accepted.     *)
Done ==
  /\ at = "files" /\ tasks = <<>>
  /\ IF goal # home /\ \E m \in Models, v \in Versions : Contents[goal][m][v] \in Wrong THEN Return
     ELSE at' = (IF goal = home THEN "idle" ELSE "tried") /\ ready' = TRUE /\ UNCHANGED <<goal, tasks, mode>>
  /\ UNCHANGED <<now, back, flight, orphans, file, triton, note, home, asked, crashes, restarts, needless>>

(* The release of the trial becomes head, or another pod refuses it.        *)
EndTrial ==
  /\ at = "tried"
  /\ \/ home' = goal /\ at' = "idle" /\ UNCHANGED <<goal, tasks, mode, ready>>
     \/ Return /\ UNCHANGED home
  /\ UNCHANGED <<now, back, flight, orphans, file, triton, note, asked, crashes, restarts, needless>>

(* Models that are not in the release are unloaded, and their files go.  A  *)
(* trial unloads none, because other pods still serve them.                 *)
Unload(m) ==
  /\ at = "idle" \/ (at = "tried" /\ ~On("RemoveLast"))
  /\ ~In(goal, m) /\ m \notin orphans /\ triton[m].known
  /\ triton' = [triton EXCEPT ![m] = Unloaded]
  /\ file' = [file EXCEPT ![m] = [content |-> Nothing, time |-> Zero, label |-> "-", labelTime |-> 0, serves |-> {}, configTime |-> 0, face |-> "-"]]
  /\ note' = [note EXCEPT ![m] = [sure |-> FALSE, before |-> FALSE, content |-> Nothing, time |-> Zero, label |-> "-", labelTime |-> 0]]
  /\ UNCHANGED <<now, back, mode, flight, orphans, goal, home, tasks, at, ready, asked, crashes, restarts, needless>>

(* Links to versions that are not served go.                                *)
Clean(m) ==
  /\ at = "idle"
  /\ \E v \in Versions \ file[m].serves :
       /\ file[m].content[v] # "-"
       /\ file' = [file EXCEPT ![m].content[v] = "-", ![m].time[v] = 0, ![m].configTime = Later(file[m])]
  /\ Tick
  /\ UNCHANGED <<mode, flight, orphans, triton, note, goal, home, tasks, at, ready, asked, crashes, restarts, needless>>

(* Triton starts without models.  The agent has it load home.               *)
TritonRestarts ==
  /\ restarts < MaxRestarts /\ restarts' = restarts + 1
  /\ triton' = [m \in Models |-> Unloaded]
  /\ note' = [m \in Models |-> [note[m] EXCEPT !.sure = FALSE]]
  /\ flight' = {} /\ orphans' = {} /\ mode' = "all"
  /\ goal' = home /\ tasks' = Tasks(Steps, home) \o Tasks(Others, home) /\ at' = "files" /\ ready' = FALSE
  /\ UNCHANGED <<now, back, file, home, asked, crashes, needless>>

Next ==
  \/ \E r \in Releases : Ask(r)
  \/ Write \/ LoadModel \/ OrphanLoads \/ Done \/ EndTrial \/ TritonRestarts \/ DiesDuringWrite \/ DiesDuringLoad
  \/ \E m \in Models : Clean(m) \/ Unload(m)
Spec == Init /\ [][Next]_vars

-------------------------------------------------------------------------------
(* When the agent reports a release, Triton has loaded exactly that one.    *)
ServesWhatItSays ==
  at # "files" => \A m \in Models : In(goal, m) => \A v \in Versions :
    /\ triton[m].content[v] = Contents[goal][m][v]
    /\ triton[m].label[v] = IF Contents[goal][m][v] = "-" THEN "-" ELSE Labels[goal][m]

(* A version that did not change is not loaded again.                       *)
NothingNeedless == ~needless

(* While the pod takes requests, the ensemble uses the steps of its own     *)
(* release.                                                                 *)
EnsembleIsWhole ==
  ready /\ Ensemble \in Models =>
    LET loaded == CHOOSE r \in Releases : \A v \in Versions : Contents[r][Ensemble][v] = triton[Ensemble].content[v] IN
    (\E v \in Versions : triton[Ensemble].content[v] # "-") =>
      \A i \in 1..Len(Steps) :
        LET v == Pins[loaded][Steps[i]] IN
        triton[Steps[i]].content[v] = Contents[loaded][Steps[i]][v] /\ triton[Steps[i]].face = Faces[loaded][Steps[i]]

(* No client gets a wrong answer of a trial.                                *)
TrialsAreNotSeen == Outside /\ ready => \A m \in Models : \A v \in Versions : triton[m].content[v] \notin Wrong

(* While the pod gets requests it has every model of head, also of a        *)
(* release that is tried without it.                                        *)
HomeIsServed == ready => \A m \in Models : In(home, m) => \E v \in Versions : triton[m].content[v] # "-"

(* What must be possible.                                                   *)
NeverSwitched == home = First
===============================================================================
