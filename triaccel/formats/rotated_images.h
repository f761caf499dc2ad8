#pragma once

#include "triaccel/formats/image_set.h"

namespace triaccel {

/// Turns every image about its centre, counter-clockwise as it is seen: bilinear between pixels,
/// black beyond the edges. Coordinates and weights are whole numbers of 2^-16 and 2^-8 pixels, so
/// that the same bytes come out on every machine. Labels and size stay. Throws UsageError for an
/// angle outside [-360, 360].
void rotate_images(ImageSet& set, double degrees);

}  // namespace triaccel
