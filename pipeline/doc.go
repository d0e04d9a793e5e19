// Package pipeline runs a process of a pipeline that survives crashes: it binds a weir.Task to the coordinator of package checkpoint.
//
// Its one idea: a process is a function of an attempt. [Run] joins the pipeline and calls the function; whenever a process of the
// pipeline is lost, all attempts end, and the function is called again, with the next attempt's number and with the state of the last
// completed checkpoint. The function opens a node, an input and outputs that belong to [Attempt.NewTask], moves records, and ends with
// [Attempt.Finish]. Everything between is done here: triggers become barriers, what the task reports is written to the
// checkpoint, sinks commit what a completed checkpoint contains, and only that.
//
// The invariant: what a [checkpoint.TwoPhase] sink has committed is exactly what the sources' records up to the last completed checkpoint
// come to, whatever processes were killed, and when.
//
// Who may fail: any member, the coordinator, any connection between them. What is not there: somebody who starts a killed process
// again, with the same command. That is the job of a supervisor.
package pipeline
