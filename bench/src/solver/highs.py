"""Solves the assignment's linear program with HiGHS. Reads one problem as f64 little endian from a file:
supplies, groups, segments, arcs; demand and shed price of each supply; width and slope of each segment by group; then
supply, group, cost and gain of each arc. Prints status, CPU seconds of the solve, objective and peak memory in MiB."""
import resource
import sys
import time

import highspy
import numpy

values = numpy.fromfile(sys.argv[1], dtype="<f8")
limit = float(sys.argv[2])
supplies, groups, segments, arcs = (int(value) for value in values[:4])
at = 4


def take(count):
    global at
    at += count
    return values[at - count : at]


demand, shed = take(supplies), take(supplies)
width, slope = take(groups * segments), take(groups * segments)
arc_supply, arc_group = take(arcs).astype(numpy.int32), take(arcs).astype(numpy.int32)
cost, gain = take(arcs), take(arcs)

# Columns: arcs, shed of each supply, segments. Rows: balance of each supply, then load of each group.
columns = arcs + supplies + groups * segments
rows = supplies + groups
start = numpy.concatenate([2 * numpy.arange(arcs), 2 * arcs + numpy.arange(supplies + groups * segments + 1)])
index = numpy.empty(2 * arcs + supplies + groups * segments, dtype=numpy.int32)
value = numpy.empty(len(index))
index[0 : 2 * arcs : 2], index[1 : 2 * arcs : 2] = arc_supply, supplies + arc_group
value[0 : 2 * arcs : 2], value[1 : 2 * arcs : 2] = 1.0, gain
index[2 * arcs : 2 * arcs + supplies] = numpy.arange(supplies)
value[2 * arcs : 2 * arcs + supplies] = 1.0
index[2 * arcs + supplies :] = supplies + numpy.repeat(numpy.arange(groups), segments)
value[2 * arcs + supplies :] = -1.0

program = highspy.HighsLp()
program.num_col_, program.num_row_ = columns, rows
program.col_cost_ = numpy.concatenate([cost, shed, slope])
program.col_lower_ = numpy.zeros(columns)
program.col_upper_ = numpy.concatenate([numpy.full(arcs + supplies, highspy.kHighsInf), width])
balance = numpy.concatenate([demand, numpy.zeros(groups)])
program.row_lower_ = balance
program.row_upper_ = balance
program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
program.a_matrix_.start_ = start
program.a_matrix_.index_ = index
program.a_matrix_.value_ = value

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
solver = highspy.Highs()
solver.setOptionValue("output_flag", False)
solver.setOptionValue("threads", 1)
solver.setOptionValue("time_limit", limit)
solver.passModel(program)
began = time.process_time()
solver.run()
seconds = time.process_time() - began
memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
status = solver.modelStatusToString(solver.getModelStatus()).replace(" ", "_")
print(status, seconds, solver.getInfo().objective_function_value, memory)
