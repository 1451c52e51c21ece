#include "server/tuner/search/mixed/batch_shares.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace meshwright {
namespace {

// Micro-batches in which a pipeline fills and drains, beside those that its slowest stage works on.
double FillOf(const SharingGroup& group) {
  return std::max(0.0, group.all / group.work - 1 - (group.stages - 1) * group.forward);
}

class Sharer {
 public:
  Sharer(const std::vector<SharingGroup>& groups, const SharesBetween& range, std::int64_t& most,
         bool& were_cut)
      : groups_(groups), range_(range), left_(most), were_cut_(were_cut) {
    // Few choices first: the group with the smallest micro-batches takes what is left.
    order_.resize(groups.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(order_, std::ranges::greater(),
                             [&](std::size_t i) { return groups[i].samples; });
  }

  std::vector<BatchShares> Run(int batch) {
    most_.resize(groups_.size());
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      most_[i] = MostOf(groups_[i], batch);
      if (most_[i] < 1) return {};
    }
    std::int64_t most = 0;
    std::int64_t least = 0;
    most_after_.assign(groups_.size() + 1, 0);
    least_after_.assign(groups_.size() + 1, 0);
    for (std::size_t at = groups_.size(); at-- > 0;) {
      const std::size_t i = order_[at];
      most_after_[at] = most += std::int64_t{groups_[i].samples} * most_[i];
      least_after_[at] = least += groups_[i].samples;
    }
    current_.micro_batches.assign(groups_.size(), 0);
    Share(0, batch, Seconds(0));
    std::ranges::stable_sort(all_, {}, &BatchShares::least);
    return std::move(all_);
  }

 private:
  // Returns the most micro-batches whose bound is in the range.
  [[nodiscard]] int MostOf(const SharingGroup& group, int batch) const {
    int fits = 0;
    int misses = batch / group.samples + 1;
    while (fits + 1 < misses) {
      const int middle = fits + (misses - fits) / 2;
      (LeastPipeline(group, middle) <= range_.to ? fits : misses) = middle;
    }
    return fits;
  }

  void Share(std::size_t at, std::int64_t left, Seconds longest) {
    if (at == groups_.size()) {
      if (longest <= range_.from) return;
      current_.least = longest;
      all_.push_back(current_);
      return;
    }
    const std::size_t i = order_[at];
    const std::int64_t own = groups_[i].samples;
    std::int64_t most = std::min<std::int64_t>(most_[i], (left - least_after_[at + 1]) / own);
    const std::int64_t missing = left - most_after_[at + 1];
    const std::int64_t least = std::max<std::int64_t>(1, (missing + own - 1) / own);
    if (at + 1 == groups_.size()) {  // all that is left
      if (left_ <= 0) {
        were_cut_ = true;
        return;
      }
      --left_;
      if (left % own != 0) return;
      most = std::min(most, left / own);
      if (most != left / own) return;
      current_.micro_batches[i] = static_cast<int>(most);
      Share(at + 1, 0, std::max(longest, LeastPipeline(groups_[i], static_cast<int>(most))));
      return;
    }
    for (std::int64_t count = least; count <= most && !were_cut_; ++count) {
      current_.micro_batches[i] = static_cast<int>(count);
      Share(at + 1, left - count * own,
            std::max(longest, LeastPipeline(groups_[i], static_cast<int>(count))));
    }
  }

  const std::vector<SharingGroup>& groups_;
  const SharesBetween& range_;
  std::int64_t& left_;
  bool& were_cut_;
  std::vector<std::size_t> order_;
  std::vector<int> most_;
  std::vector<std::int64_t> most_after_;   // samples of the groups from one on
  std::vector<std::int64_t> least_after_;  // with one micro-batch each
  BatchShares current_;
  std::vector<BatchShares> all_;
};

}  // namespace

Seconds LeastPipeline(const SharingGroup& group, int micro_batches) {
  const double warm_up = std::min(group.stages, micro_batches) - 1;
  const double own = micro_batches - 1 - warm_up * group.forward;
  return std::max(micro_batches * group.work, own * group.work + group.all);
}

Seconds LeastShared(const std::vector<SharingGroup>& groups, int batch) {
  double samples = batch;
  double rate = 0;
  Seconds least(0);
  for (const SharingGroup& group : groups) {
    samples += group.samples * FillOf(group);
    rate += group.samples / group.work.count();
    least = std::max(least, LeastPipeline(group, 1));
  }
  return std::max(least, Seconds(samples / rate));
}

std::vector<BatchShares> SharesOf(const std::vector<SharingGroup>& groups, int batch,
                                  const SharesBetween& range, std::int64_t& most, bool& were_cut) {
  return Sharer(groups, range, most, were_cut).Run(batch);
}

}  // namespace meshwright
