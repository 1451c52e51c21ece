#pragma once

#include <string>
#include <vector>

#include "search_space/spec/choices.h"
#include "vendor_models/chip_file.h"

namespace meshwright {

// The facts behind the estimates of one operator of a chip.
struct OperatorCoverage {
  std::string name = {};           // as OperatorFit::name: gemm, attention, all_reduce, ...
  std::string detail = {};         // bf16; 8 ranks; empty: all of them
  std::string size_unit = {};      // flops, bytes; empty: the file keeps no points
  std::vector<double> sizes = {};  // of each point that the file keeps, ascending
  Provenance provenance = Provenance::kAssumed;
  Confidence confidence = Confidence::kLow;
  std::string source = {};
  bool operator==(const OperatorCoverage&) const = default;
};

// Returns a row for each operator that a calibration measures (docs/chips.md), and one for each
// table of matrix products and each collective of the chip's file. GEMMs have the size of their
// floating-point operations, collectives that of their message. An operator without a row in the
// file has one all the same, with what its estimates rest on instead.
std::vector<OperatorCoverage> CoverageOf(const ChipEntry& entry);

}  // namespace meshwright
