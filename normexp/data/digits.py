"""The 1,797 handwritten digits that come inside scikit-learn: real images, no download."""

import torch

from normexp.data.images import ImageData
from normexp.data.splits import stratified_order
from normexp.data.stored_images import Images

TEST_SIZE = 360  # a fifth


class Digits(ImageData):
    """8x8 gray images of ten digits (UCI, Alpaydin & Kaynak 1998); 360 stratified test images.

    The set has no standard splits. `split_seed` cuts all three, so another seed has other test images.
    """

    max_pixel = 16

    def read_images(self) -> Images:
        from sklearn.datasets import load_digits  # a second of imports

        digits = load_digits()
        images = torch.from_numpy(digits.images).to(torch.uint8).unsqueeze(1)  # (1797, 1, 8, 8)
        labels = torch.from_numpy(digits.target).long()
        order = stratified_order(labels, self.split_seed)
        return Images(images, labels, train=order[TEST_SIZE:], test=order[:TEST_SIZE], num_classes=10)
