// For tests: a comparison of three runs, one of which failed, with texts that need escaping.
#pragma once

#include "report/comparison.h"

namespace thinwire::report {

inline Comparison sample_comparison() {
  Comparison comparison;
  comparison.title = "lenet on text:<b>\"a\" & 'b'.txt";
  comparison.command = "thinwire compare --data 'text:<b>'";
  comparison.setting = {{"data", "text:<b>"}, {"network", ""}};
  ComparedRun dense;
  dense.strategy = "dense";
  dense.summary = "{}";
  dense.accuracy = dense.accuracy_worst_worker = 0.95;
  dense.seconds = 10;
  dense.compute = 4;
  dense.wire = 5;
  dense.steps = 100;
  dense.bytes_sent = dense.bytes_per_worker_step = 1000;
  dense.tests = {{50, 5, 250, 0.5}, {100, 10, 500, 0.95}};
  ComparedRun gtopk = dense;
  gtopk.strategy = "gtopk:density=0.1";
  gtopk.residuals = {{1, 0}, {2, 0.5}, {3, 2}};
  gtopk.consensus_distance = 0.01;
  ComparedRun failed;
  failed.strategy = "lasgd";
  failed.problem = "said <script>alert(1)</script>";
  comparison.runs = {dense, gtopk, failed};
  return comparison;
}

}  // namespace thinwire::report
