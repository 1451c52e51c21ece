#include "server/tuner/placement/exact_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace meshwright {
namespace {

// Sums of the same values in another order differ by less than this share.
constexpr double kShare = 1e-12;
constexpr double kFloorShare = 1e-9;

// States that the search remembers; some hundred bytes each.
constexpr std::size_t kMaxStates = 500'000;

// Prices of a node of each pool and of the floor.
struct Prices {
  std::vector<double> nodes = {};
  double floor = 0;
};

double ReducedValue(const ProgramOption& option, const Prices& prices) {
  double value = option.value + prices.floor * option.floor_value;
  for (const PoolUse& use : option.uses) {
    value -= prices.nodes[static_cast<std::size_t>(use.pool)] * use.node_count;
  }
  return value;
}

// Returns the option with the greatest reduced value; nullptr: to place none is better.
const ProgramOption* BestAt(const ProgramJob& job, const Prices& prices) {
  const ProgramOption* best = nullptr;
  double most = 0;
  for (const ProgramOption& option : job.options) {
    const double value = ReducedValue(option, prices);
    const bool is_first = job.is_required && best == nullptr;
    if (!is_first && value <= most) continue;
    best = &option;
    most = value;
  }
  return best;
}

double PriceOf(const Prices& prices, const std::vector<int>& nodes, double missing_floor) {
  double sum = -prices.floor * missing_floor;
  for (std::size_t p = 0; p < nodes.size(); ++p) sum += prices.nodes[p] * nodes[p];
  return sum;
}

struct Relaxation {
  Prices prices = {};
  double bound = 0;
};

// The excess of nodes that the jobs want at some prices, as a share of each pool's nodes, and what
// they lack toward the floor, as a share of it.
struct Wishes {
  double bound = 0;
  std::vector<double> excess = {};
  double missing = 0;
};

Wishes WishesAt(const IntegerProgram& program, const Prices& prices) {
  const double floor = program.floor.value_or(0);
  std::vector<int> wanted(program.node_counts.size());
  Wishes wishes = {.bound = PriceOf(prices, program.node_counts, floor), .missing = floor};
  for (const ProgramJob& job : program.jobs) {
    const ProgramOption* const option = BestAt(job, prices);
    if (option == nullptr) continue;
    wishes.bound += ReducedValue(*option, prices);
    wishes.missing -= option->floor_value;
    for (const PoolUse& use : option->uses) {
      wanted[static_cast<std::size_t>(use.pool)] += use.node_count;
    }
  }
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    const int nodes = program.node_counts[p];
    wishes.excess.push_back(static_cast<double>(wanted[p] - nodes) / std::max(1, nodes));
  }
  wishes.missing = floor > 0 ? wishes.missing / floor : 0;
  return wishes;
}

double SquaredLength(const Wishes& wishes) {
  double sum = wishes.missing * wishes.missing;
  for (const double one : wishes.excess) sum += one * one;
  return sum;
}

// Finds good prices by the subgradient method (Held, Wolfe and Crowder 1974): the price of a pool
// rises if the jobs want more nodes than it has. Steps begin as if the bound could fall by a tenth,
// and are halved when it has not fallen for a while.
Relaxation Relax(const IntegerProgram& program) {
  constexpr int kSteps = 600;
  constexpr int kPatience = 12;
  const double floor = program.floor.value_or(0);
  Prices prices = {.nodes = std::vector<double>(program.node_counts.size(), 0)};
  Relaxation best;
  double share = 0.1;
  int since_best = 0;
  for (int step = 0; step < kSteps; ++step) {
    const Wishes wishes = WishesAt(program, prices);
    if (step == 0 || wishes.bound < best.bound) {
      best = {.prices = prices, .bound = wishes.bound};
      since_best = 0;
    } else if (++since_best == kPatience) {
      prices = best.prices;
      share /= 2;
      since_best = 0;
      continue;
    }
    const double squared = SquaredLength(wishes);
    if (squared == 0) break;
    const double length = share * std::abs(wishes.bound) / squared;
    for (std::size_t p = 0; p < prices.nodes.size(); ++p) {
      const double change = length * wishes.excess[p] / std::max(1, program.node_counts[p]);
      prices.nodes[p] = std::max(0.0, prices.nodes[p] + change);
    }
    if (floor > 0) prices.floor = std::max(0.0, prices.floor + length * wishes.missing / floor);
  }
  return best;
}

// Returns the program that maximises what counts toward the floor.
IntegerProgram FloorProgram(const IntegerProgram& program) {
  IntegerProgram floor = program;
  floor.floor = std::nullopt;
  for (ProgramJob& job : floor.jobs) {
    for (ProgramOption& option : job.options) {
      option.value = option.floor_value;
      option.floor_value = 0;
    }
  }
  return floor;
}

class Search {
 public:
  Search(IntegerProgram program, std::int64_t node_limit)
      : program_(std::move(program)), node_limit_(node_limit), relaxation_(Relax(program_)) {
    if (program_.floor.has_value()) floor_relaxation_ = Relax(FloorProgram(program_));
    order_.resize(program_.jobs.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(order_, [this](std::size_t a, std::size_t b) {
      const ProgramJob& first = program_.jobs[a];
      const ProgramJob& second = program_.jobs[b];
      if (first.is_required != second.is_required) return first.is_required;
      return GreatestValue(first) > GreatestValue(second);
    });
    for (ProgramJob& job : program_.jobs) {
      std::ranges::stable_sort(job.options, [this](const auto& a, const auto& b) {
        return ReducedValue(a, relaxation_.prices) > ReducedValue(b, relaxation_.prices);
      });
    }
    FillRest();
    free_ = program_.node_counts;
    chosen_.resize(program_.jobs.size());
  }

  ProgramSolution Run() {
    Descend(0, 0, 0);
    ProgramSolution solution = {.assignment = std::move(best_), .value = best_value_};
    solution.is_proven = node_count_ <= node_limit_;
    solution.bound = solution.is_proven ? best_value_ : std::max(best_value_, relaxation_.bound);
    return solution;
  }

 private:
  // The most that the jobs from one on can add: in value, after prices, and toward the floor.
  struct Rest {
    double value = 0;
    double reduced = 0;
    double floor = 0;
    double reduced_floor = 0;
  };

  static double GreatestValue(const ProgramJob& job) {
    double greatest = 0;
    for (const ProgramOption& option : job.options) greatest = std::max(greatest, option.value);
    return greatest;
  }

  void FillRest() {
    rest_.resize(order_.size() + 1);
    for (std::size_t depth = order_.size(); depth-- > 0;) {
      const ProgramJob& job = program_.jobs[order_[depth]];
      Rest& rest = rest_[depth];
      rest = rest_[depth + 1];
      const ProgramOption* const best = BestAt(job, relaxation_.prices);
      if (best != nullptr) rest.reduced += ReducedValue(*best, relaxation_.prices);
      rest.value += GreatestValue(job);
      double floor = 0;
      double reduced_floor = 0;
      for (const ProgramOption& option : job.options) {
        floor = std::max(floor, option.floor_value);
        reduced_floor = std::max(reduced_floor, ReducedFloor(option));
      }
      rest.floor += floor;
      rest.reduced_floor += reduced_floor;
    }
  }

  // Returns what an option counts toward the floor, less the prices of its nodes in that figure.
  double ReducedFloor(const ProgramOption& option) const {
    if (!program_.floor.has_value()) return 0;
    double value = option.floor_value;
    for (const PoolUse& use : option.uses) {
      value -= floor_relaxation_.prices.nodes[static_cast<std::size_t>(use.pool)] * use.node_count;
    }
    return value;
  }

  // Returns false if no continuation reaches the floor or exceeds the best value.
  bool IsHopeful(std::size_t depth, double value, double floor) const {
    const Rest& rest = rest_[depth];
    if (program_.floor.has_value()) {
      const double most =
          floor +
          std::min(rest.floor, rest.reduced_floor + PriceOf(floor_relaxation_.prices, free_, 0));
      if (most < *program_.floor - kFloorShare * std::abs(*program_.floor)) return false;
    }
    if (!best_.has_value()) return true;
    const double missing = program_.floor.value_or(0) - floor;
    const double bound =
        value + std::min(rest.value, rest.reduced + PriceOf(relaxation_.prices, free_, missing));
    return bound > best_value_ + kShare * std::max(1.0, std::abs(best_value_));
  }

  // Returns false if these jobs have been continued with the same nodes from as good a start.
  bool IsNews(std::size_t depth, double value) {
    if (program_.floor.has_value()) return true;
    std::string key(reinterpret_cast<const char*>(free_.data()), free_.size() * sizeof(int));
    key += std::to_string(depth);
    if (const auto found = seen_.find(key); found != seen_.end()) {
      if (value <= found->second) return false;
      found->second = value;
    } else if (seen_.size() < kMaxStates) {
      seen_.emplace(std::move(key), value);
    }
    return true;
  }

  void Descend(std::size_t depth, double value, double floor) {
    if (!IsHopeful(depth, value, floor) || ++node_count_ > node_limit_) return;
    if (depth == order_.size()) {
      best_ = chosen_;
      best_value_ = value;
      return;
    }
    if (!IsNews(depth, value)) return;
    const ProgramJob& job = program_.jobs[order_[depth]];
    std::optional<int>& chosen = chosen_[order_[depth]];
    for (const ProgramOption& option : job.options) {
      if (!Take(option)) continue;
      chosen = option.option;
      Descend(depth + 1, value + option.value, floor + option.floor_value);
      Return(option);
    }
    chosen = std::nullopt;
    if (!job.is_required) Descend(depth + 1, value, floor);
  }

  bool Take(const ProgramOption& option) {
    for (const PoolUse& use : option.uses) {
      if (use.node_count > free_[static_cast<std::size_t>(use.pool)]) return false;
    }
    for (const PoolUse& use : option.uses) {
      free_[static_cast<std::size_t>(use.pool)] -= use.node_count;
    }
    return true;
  }

  void Return(const ProgramOption& option) {
    for (const PoolUse& use : option.uses) {
      free_[static_cast<std::size_t>(use.pool)] += use.node_count;
    }
  }

  IntegerProgram program_;
  const std::int64_t node_limit_;
  const Relaxation relaxation_;
  Relaxation floor_relaxation_;  // of FloorProgram
  std::vector<std::size_t> order_;
  std::vector<Rest> rest_;
  std::vector<int> free_;
  Assignment chosen_;
  std::optional<Assignment> best_;
  double best_value_ = 0;
  std::int64_t node_count_ = 0;
  std::unordered_map<std::string, double> seen_;
};

}  // namespace

double RelaxedBound(const IntegerProgram& program) { return Relax(program).bound; }

ProgramSolution SolveExactly(const IntegerProgram& program, std::int64_t node_limit) {
  return Search(WithoutDominated(program), node_limit).Run();
}

}  // namespace meshwright
