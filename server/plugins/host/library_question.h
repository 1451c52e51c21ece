#pragma once

#include <string>
#include <vector>

#include "meshwright/costmodel/v1/costmodel.pb.h"
#include "vendor_models/abi/meshwright_costmodel.h"

namespace meshwright {

// A question of the contract in the form of the C ABI. It points into the message, which must
// outlive it.
class LibraryQuestion {
 public:
  explicit LibraryQuestion(const costmodel::v1::OpenContextRequest& request);
  LibraryQuestion(const LibraryQuestion&) = delete;
  LibraryQuestion& operator=(const LibraryQuestion&) = delete;

  [[nodiscard]] const mw_question* get() const { return &question_; }

 private:
  void SetModel(const costmodel::v1::Model& model);
  void SetWorkload(const costmodel::v1::Workload& workload);
  void AddPool(const costmodel::v1::Pool& pool);

  mw_moe moe_ = {};
  mw_mla mla_ = {};
  std::vector<mw_string> modules_;
  std::vector<std::vector<mw_peak>> peaks_;
  std::vector<mw_pool> pools_;
  mw_question question_ = {};
};

// Converts a batch in the same way.
mw_candidates LibraryCandidates(const costmodel::v1::Candidates& candidates);

mw_string LibraryString(const std::string& text);
std::string FromLibrary(const mw_string& text);

}  // namespace meshwright
