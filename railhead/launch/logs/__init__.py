"""The output of a job: while it runs, and when its pods, its nodes and the job itself are gone.

:mod:`~railhead.launch.logs.stream` follows the pods that exist. The pods themselves copy what
they print onto their namespace's claim (:mod:`~railhead.launch.logs.claimed`), from which a pod of
the team's brings it (:mod:`~railhead.launch.logs.reader`) to the files that this machine keeps
(:mod:`~railhead.launch.logs.kept`); :mod:`~railhead.launch.logs.past` reads those.
"""
