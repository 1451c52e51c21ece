#include "estimator/fit/minimise.h"

#include <nlopt.h>

#include <algorithm>
#include <memory>

namespace meshwright {
namespace {

constexpr int kEvaluationLimit = 2500;  // eight parameters settle after about 1,500

using Cost = std::function<double(std::span<const double>)>;

double CallCost(unsigned count, const double* values, double* /*gradient*/, void* cost) {
  return (*static_cast<const Cost*>(cost))({values, count});
}

}  // namespace

std::vector<double> Minimise(const Cost& cost, std::span<const FitParameter> parameters) {
  std::vector<double> low;
  std::vector<double> high;
  std::vector<double> values;
  std::vector<double> steps;
  for (const FitParameter& p : parameters) {
    low.push_back(p.low);
    high.push_back(p.high);
    values.push_back(std::clamp(p.start, p.low, p.high));
    steps.push_back((p.high - p.low) / 10);
  }
  const std::unique_ptr<nlopt_opt_s, void (*)(nlopt_opt)> search(
      nlopt_create(NLOPT_LN_SBPLX, static_cast<unsigned>(parameters.size())), nlopt_destroy);
  nlopt_set_lower_bounds(search.get(), low.data());
  nlopt_set_upper_bounds(search.get(), high.data());
  nlopt_set_initial_step(search.get(), steps.data());
  // NLopt does not write through the pointer that it hands to `CallCost`.
  nlopt_set_min_objective(search.get(), CallCost, const_cast<Cost*>(&cost));
  nlopt_set_ftol_rel(search.get(), 1e-7);
  nlopt_set_maxeval(search.get(), kEvaluationLimit);
  double least = 0;
  // Any result, also that the limit was reached or that rounding stopped it, leaves the best values
  // so far.
  nlopt_optimize(search.get(), values.data(), &least);
  return values;
}

}  // namespace meshwright
