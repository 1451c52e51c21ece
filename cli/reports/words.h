#pragma once

#include <cstdint>
#include <string>

#include "meshwright/v1/problem.pb.h"
#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Figures and plans as people read them. Pure functions.

std::string SecondsText(double seconds);          // "21.3 s", "950 ms", "12 us"
std::string GibText(std::int64_t bytes);          // "61.2"
std::string PercentText(double ratio);            // "52.1 %"
std::string ProbabilityText(double probability);  // "83 %"; "> 99 %", because none is certain
std::string RoundedText(double count);            // the same of a whole number nearby
std::string DaysText(double days);                // "27.3", "1,053"
std::string PriceText(double price);              // "0.25", "838,400"

// Returns "ok" or "crash (metrics_missing)", for example: the class of a failure follows if it says
// more than the outcome. Returns "-" for what has not ended.
std::string EndWords(const std::string& outcome, const std::string& failure_class);

// Returns, for example, "tp4 sp pp4 dp8 mb1 zero1 1f1b, recompute full 5/20 layers". Dimensions of
// size 1 are left out except for data parallelism and the micro-batch.
std::string PlanWords(const v1::Plan& plan);

// Says in a sentence how long a run takes and what it uses.
std::string RunWords(const v1::RunCost& run);

// Names the vendor's model that made the step times; empty if the built-in model did.
std::string CostModelLine(const v1::Estimate& estimate);

}  // namespace meshwright
