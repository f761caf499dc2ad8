"""The networks of the comparison, as torchvision builds them, without needing torchvision."""
import torch
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + shortcut)


def resnet18(stem, channels, classes):
    if stem == "imagenet":
        first = [nn.Conv2d(channels, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
                 nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    else:
        first = [nn.Conv2d(channels, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64),
                 nn.ReLU(inplace=True)]
    blocks, width = [], 64
    for stage, outputs in enumerate((64, 128, 256, 512)):
        for index in range(2):
            blocks.append(BasicBlock(width, outputs, 2 if stage > 0 and index == 0 else 1))
            width = outputs
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(512, classes))


def conv_norm(inputs, outputs, kernel=1, stride=1, groups=1, activation=True):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
              nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([nn.SiLU(inplace=True)] if activation else []))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation = nn.SiLU(inplace=True)
        self.scale_activation = nn.Sigmoid()

    def forward(self, x):
        return self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x))))) * x


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, expand, kernel, stride, drop_probability):
        super().__init__()
        expanded = inputs * expand
        layers = [] if expand == 1 else [conv_norm(inputs, expanded)]
        layers += [conv_norm(expanded, expanded, kernel, stride, groups=expanded),
                   SqueezeExcitation(expanded, max(1, inputs // 4)),
                   conv_norm(expanded, outputs, activation=False)]
        self.block = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs
        self.drop_probability = drop_probability

    def forward(self, x):
        branch = self.block(x)
        if not self.residual:
            return branch
        if self.training and self.drop_probability > 0:  # stochastic depth, sample by sample
            survival = 1 - self.drop_probability
            kept = torch.empty((x.shape[0], 1, 1, 1), dtype=branch.dtype, device=branch.device)
            branch = branch * kept.bernoulli_(survival).div_(survival)
        return branch + x


def efficientnet_b0(channels, classes):
    stages = [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
              (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)]
    all_blocks, width, layers = sum(stage[4] for stage in stages), 32, []
    layers.append(conv_norm(channels, width, kernel=3, stride=2))
    for expand, kernel, stride, outputs, blocks in stages:
        for index in range(blocks):
            drop_probability = 0.2 * (len(layers) - 1) / all_blocks
            layers.append(InvertedResidual(width, outputs, expand, kernel,
                                           stride if index == 0 else 1, drop_probability))
            width = outputs
    layers += [conv_norm(width, 4 * width), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
               nn.Dropout(0.2, inplace=True), nn.Linear(4 * width, classes)]
    return nn.Sequential(*layers)


def make_model(name, stem, channels=3, classes=10):
    if name == "resnet18":
        return resnet18(stem, channels, classes)
    return efficientnet_b0(channels, classes)
